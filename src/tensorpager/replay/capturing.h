// Captures the calls of a program, so that what they make can be dropped and rebuilt; and has dropped blocks rebuilt
// before something is written that they are rebuilt from.
#pragma once

#include <cstdint>

#include "tensorpager/base/config.h"
#include "tensorpager/intercept/kernel_runner.h"
#include "tensorpager/replay/replayer.h"

namespace tensorpager::replay {

enum class Captures : std::uint8_t {
  kAll,      // every call that can be made again, but for some at random
  kPlanned,  // of ops that the plan replays later
};

/// From now on calls are captured for it whose kernels are those of the device that is paged. It must live for ever.
/// Nothing may be dropped now.
void start_capturing(Replayer& replayer, Captures captures, base::Device device);

/// Who runs kernels meanwhile, and captures their calls.
intercept::KernelRunner capturing_runner(Captures captures);

}  // namespace tensorpager::replay
