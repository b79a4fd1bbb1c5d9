#include "tensorpager/guide/phase.h"

namespace tensorpager::guide {

std::optional<Phase> phase_after(Phase phase, Event event) {
  if (phase == Phase::kStopped) return std::nullopt;
  switch (event) {
    case Event::kStopped:
      return Phase::kStopped;
    case Event::kResumed:
      if (!is_paused(phase)) return std::nullopt;
      return is_following(phase) ? Phase::kFollowing : Phase::kLearning;
    case Event::kActivated:
      return is_paused(phase) ? std::nullopt : std::optional(Phase::kFollowing);
    case Event::kDeactivated:
      return is_paused(phase) ? std::nullopt : std::optional(Phase::kLearning);
    case Event::kPaused:
      if (is_paused(phase)) return std::nullopt;
      return is_following(phase) ? Phase::kPausedFollowing : Phase::kPausedUnplanned;
  }
  return std::nullopt;
}

bool is_following(Phase phase) { return phase == Phase::kFollowing || phase == Phase::kPausedFollowing; }

bool is_paused(Phase phase) { return phase == Phase::kPausedUnplanned || phase == Phase::kPausedFollowing; }

}  // namespace tensorpager::guide
