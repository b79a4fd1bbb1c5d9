// R4: a collective goes on after its op returned, on threads of its own and in system calls. What it touches stays
// resident and writable until its Work is done; what its own threads allocate stays so until freed.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "tensorpager/intercept/op_info.h"

namespace tensorpager::intercept {

/// By schema: torch.distributed's ops.
bool is_collective(const c10::FunctionSchema& schema);

/// Runs the op, and keeps the blocks of its arguments and results until its Work is done. The arguments are pinned by
/// the caller's frame.
void run_collective(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet keys,
                    torch::jit::Stack* stack);

/// Lets go of what finished collectives kept. Cheap where none is under way. Polls, because not every Work has a
/// future; calls foreign code, so no lock may be held.
void release_finished_collectives();

/// Whether this thread belongs to a process group (by the name torch gives it).
bool is_collective_thread();

}  // namespace tensorpager::intercept
