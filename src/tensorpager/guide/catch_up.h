#pragma once

#include <cstdint>
#include <unordered_map>

#include "tensorpager/follow/plan_switch.h"
#include "tensorpager/guide/profile.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::guide {

/// Replays the stream's ops since the last window, so that `follower` stands where the program does. `blocks`: those
/// alive now, by number. Returns false if those ops are no longer known.
bool catch_up(follow::PlanSwitch& follower, const Profile& profile, const trace::Stream& stream,
              const std::unordered_map<std::uint64_t, pager::Block*>& blocks);

}  // namespace tensorpager::guide
