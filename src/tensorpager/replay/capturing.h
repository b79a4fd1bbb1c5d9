// Captures the calls of a program, so that what they make can be dropped and rebuilt; and has dropped blocks rebuilt
// before something is written that they are rebuilt from.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

#include "tensorpager/pager/block.h"
#include "tensorpager/replay/replayer.h"

namespace tensorpager::replay {

enum class Captures : std::uint8_t {
  kAll,      // every call that can be made again
  kPlanned,  // of ops that the plan replays later
};

/// From now on calls are captured for it. It must live for ever. Nothing may be dropped now.
void start_capturing(Replayer& replayer, Captures captures);

/// Runs the kernel of a call and captures it. `after`: the keys that are left. For intercept::see_calls.
void run_captured(const c10::OperatorHandle& op, c10::DispatchKeySet after, torch::jit::Stack* stack);

/// Something that is not run by `run_captured` is about to write the block. For intercept::tell_of_writes.
void before_write(pager::Block& block);

}  // namespace tensorpager::replay
