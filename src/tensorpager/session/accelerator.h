// Loads the libraries that a session needs for an accelerator from the folder of this one, on request:
// libtensorpager.so itself works with a torch that has no CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "tensorpager/base/config.h"
#include "tensorpager/intercept/device_storages.h"
#include "tensorpager/memory/paged_memory.h"

namespace tensorpager::session {

/// Whether TENSORPAGER_EMULATE asks for the emulated card.
bool is_emulation_wanted();
/// Registers the emulated card's kernels, over the fake runtime that `tensorpager run --emulate` preloads; once in a
/// process. Throws InvalidArgument with what to install, if this build has no card or the runtime is not there.
void install_emulation();
/// The card's figures, as one JSON object with "max_allocated_bytes" and "max_reserved_bytes" of torch's allocator;
/// empty if there is no emulated card.
std::string emulation_report();
/// The same as one line of text.
std::string emulation_summary();

/// From now on `storages` is notified of the storages of torch's CUDA allocator. Initialises CUDA. Throws
/// InvalidArgument.
void watch_device(intercept::DeviceStorages& storages);

/// The memory of the CUDA device, which the session pages; once in a process. `thread_observer`: see
/// cuda::PagingAllocator. Initialises CUDA. Throws InvalidArgument, and IoError if the device has less than the budget.
memory::PagedMemory* make_card_memory(base::Bytes budget, void (*thread_observer)());

/// Bytes of the CUDA device's memory, used or not. Initialises CUDA. Throws InvalidArgument.
base::Bytes size_of_card();

struct DeviceMemory {
  std::uint64_t allocated = 0, most_allocated = 0, reserved = 0,
                most_reserved = 0;  // bytes of torch's CUDA allocator on device 0
};
DeviceMemory device_memory();

}  // namespace tensorpager::session
