// What a guide does now, and what changes that. Two things change together: whether a plan is active, and whether the
// program's ops are recorded.
//
//   phase             recorded  plan active | activated   deactivated   paused              resumed     stopped
//   kLearning         yes       no          | kFollowing  kLearning     kPausedUnplanned    -           kStopped
//   kFollowing        yes       yes         | kFollowing  kLearning     kPausedFollowing    -           kStopped
//   kPausedUnplanned  no        no          | -           -             -                   kLearning   kStopped
//   kPausedFollowing  no        yes         | -           -             -                   kFollowing  kStopped
//   kStopped          no        no          | -           -             -                   -           -
#pragma once

#include <cstdint>
#include <optional>

namespace tensorpager::guide {

enum class Phase : std::uint8_t { kLearning, kFollowing, kPausedUnplanned, kPausedFollowing, kStopped };

enum class Event : std::uint8_t {
  kActivated,    // a plan became active, perhaps in place of another
  kDeactivated,  // no plan is active
  kPaused,       // recording paused
  kResumed,      // recording resumed
  kStopped,
};

/// The phase after an event; nullopt if the event cannot be in this phase.
std::optional<Phase> phase_after(Phase phase, Event event);

/// Whether a plan is active.
bool is_following(Phase phase);
/// Whether recording is paused.
bool is_paused(Phase phase);

}  // namespace tensorpager::guide
