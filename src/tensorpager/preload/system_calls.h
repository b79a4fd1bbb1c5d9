// The C library's calls that hand memory to the kernel, put in front of its own: the kernel does not fault for us, so a
// buffer of ours is made resident and kept so while the call runs. Everything else passes through at the cost of a
// comparison.
//
// The same source is in the preload library, where it comes before the C library in every process, and in
// libtensorpager.so, where it does in programs that are linked to it. Whichever is first is the one that works.
// No C++ runtime: this is loaded into programs that have none.
#pragma once

#include <stdint.h>

namespace tensorpager::preload {

/// Who makes buffers resident. Plain functions, set once by the process's session. Addresses are numbers, as the
/// compiler takes a pointer to const for memory that is read, and `read` is handed what has no value yet.
struct Holder {
  uintptr_t begin;  // addresses that may be evicted
  uintptr_t end;
  uintptr_t own_begin;  // code whose calls must pass: the paging itself
  uintptr_t own_end;
  /// A token to release; null where nothing needs to be held. False: no room, so the call must not be made.
  bool (*hold)(uintptr_t address, void** token);
  void (*release)(void* token);
};

}  // namespace tensorpager::preload

/// Sets the holder of the first copy in this process.
extern "C" void tensorpager_hold_buffers(const tensorpager::preload::Holder* holder);
