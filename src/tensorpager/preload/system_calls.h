// Wrappers of the C library's calls that pass memory to the kernel. The kernel does not take our page faults, so a
// buffer that may be evicted is made resident and kept so during the call. All other buffers pass at the cost of a
// comparison.
//
// The same source is in the preload library, which precedes the C library in every process, and in libtensorpager.so,
// which precedes it in programs that are linked to it. The first copy in a process is the one that works. No C++
// runtime: this is loaded into programs that have none.
#pragma once

#include <stdint.h>

namespace tensorpager::preload {

/// The functions that make buffers resident, set once by the session of the process. Addresses are numbers: the
/// compiler would assume that a pointer to const is read, and `read` gets a buffer that has no value yet.
struct Holder {
  uintptr_t begin;  // addresses that may be evicted
  uintptr_t end;
  uintptr_t own_begin;  // code whose calls are not intercepted: the paging itself
  uintptr_t own_end;
  /// Sets `token` to what must be released, or null if nothing needs to be held. Returns false if there is no room, so
  /// the call must not be made.
  bool (*hold)(uintptr_t address, void** token);
  void (*release)(void* token);
};

}  // namespace tensorpager::preload

/// Sets the holder of the first copy in this process.
extern "C" void tensorpager_hold_buffers(const tensorpager::preload::Holder* holder);
