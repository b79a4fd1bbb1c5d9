// Sees every dispatcher call of the threads that carry our key: before an op runs, all it touches is resident and stays
// so until it returns.
#pragma once

#include <ATen/core/stack.h>

#include <array>
#include <mutex>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/base/config.h"
#include "tensorpager/intercept/device_storages.h"
#include "tensorpager/intercept/kernel_runner.h"
#include "tensorpager/intercept/purity_of.h"
#include "tensorpager/pager/pager.h"

namespace c10 {
class OperatorHandle;
class DispatchKeySet;
struct StorageImpl;
}  // namespace c10

namespace tensorpager::intercept {

/// Registers our kernels with torch; once in a process. Both objects must live for ever. `claimed`: see BlockFinder.
/// `recorded`: the device whose storages are recorded, if any.
void install(pager::Pager& pager, const arena::AddressSpace& space, void (*claimed)(void*), base::Device recorded);
/// The kernel behind every op that has no unboxed one of ours.
void run_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// The block behind a storage; null if it is not ours.
pager::Block* find_block(c10::StorageImpl& storage);

/// Called before each op that multiplies matrices. Null: nothing is.
void observe_products(void (*observer)());

/// From now on records these, and not the host's blocks. They must live for ever.
void record_device(DeviceStorages* storages);

/// From now on calls on whole lists are run in parts as under this budget; nullopt: as under the pager's. A dry run has
/// none, and its trace is to have the ops of a run that has one.
void divide_lists_for(std::optional<base::Bytes> budget);

/// Recorded ops say by it whether they can be run again.
void know_purity_by(PurityOf purity_of);

/// From now on calls are seen; `runner` calls their kernels, if there is one.
void see_calls(const KernelRunner& runner = {});
/// From now on calls pass through.
void pass_calls_through();

/// Puts the key into this thread's set, so that its ops are seen. Cheap to repeat; does nothing while inactive.
void enter_thread();
/// Removes the key: this thread's ops have no overhead any more.
void leave_thread();

/// To be held over a fork, so that the child finds what they guard whole. Nothing is called with them held.
std::array<std::mutex*, 2> locks_over_forks();

}  // namespace tensorpager::intercept
