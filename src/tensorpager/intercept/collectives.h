// R4: a collective goes on after its op returned, on threads of its own and in system calls. What it touches stays
// resident and writable until its Work is done; what its own threads allocate stays so until freed.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <mutex>

#include "tensorpager/intercept/op_info.h"

namespace tensorpager::intercept {

/// By schema: torch.distributed's ops.
bool is_collective(const c10::FunctionSchema& schema);

/// Runs the op, and keeps the blocks of its arguments and of what it allocated until its Work is done. All these are
/// pinned by the caller's frame, the thread's innermost one.
void run_collective(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet keys,
                    torch::jit::Stack* stack);

/// Collectives whose arguments are kept. Read without a lock, to see whether there is anything to do.
extern std::atomic<std::size_t> g_under_way_count;

/// Releases the blocks that finished collectives kept; returns whether there were any. Polls, because not every Work
/// has a future; calls foreign code, so no lock may be held.
bool release_finished();
inline void release_finished_collectives() {
  if (g_under_way_count.load(std::memory_order_relaxed) != 0) [[unlikely]]
    release_finished();
}

/// For a request that does not fit: waits until a collective is done and releases what it kept. Returns false if none
/// continues by itself, on a collective's own thread, or after half a minute: its peer may be waiting for this very
/// thread.
bool wait_for_a_collective();

/// Held for a few instructions; see `locks_over_forks`.
std::mutex& collectives_lock();

/// Whether this thread belongs to a process group (by the name torch gives it).
bool is_collective_thread();

}  // namespace tensorpager::intercept
