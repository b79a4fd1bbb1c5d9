// The libraries that a session needs for an accelerator, which lie beside this one and are loaded where they are asked
// for: libtensorpager.so itself works with a torch that has no CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "tensorpager/intercept/device_storages.h"

namespace tensorpager::session {

/// Whether TENSORPAGER_EMULATE asks for the emulated card.
bool is_emulation_wanted();
/// Registers the emulated card's kernels, over the fake runtime that `tensorpager run --emulate` preloads; once in a
/// process. Throws InvalidArgument, with what to install, where this build has none or the runtime was not preloaded.
void install_emulation();
/// What the emulated card did, as one JSON object with "max_allocated_bytes" and "max_reserved_bytes" of torch's
/// allocator; empty if there is no such card.
std::string emulation_report();
/// The same in a line for people.
std::string emulation_summary();

/// From now on the storages of torch's CUDA allocator are reported to these. Initialises CUDA. Throws InvalidArgument.
void watch_device(intercept::DeviceStorages& storages);

struct DeviceMemory {
  std::uint64_t allocated = 0, most_allocated = 0, reserved = 0,
                most_reserved = 0;  // bytes, of torch's CUDA allocator on device 0
};
DeviceMemory device_memory();

}  // namespace tensorpager::session
