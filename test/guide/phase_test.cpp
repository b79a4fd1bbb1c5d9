#include "tensorpager/guide/phase.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace tensorpager::guide {
namespace {

struct Row {
  Phase phase;
  bool is_following, is_paused;
  std::array<std::optional<Phase>, 5> after;  // activated, deactivated, paused, resumed, stopped
};

TEST(Phase, ChangesAsTheTableSays) {
  using enum Phase;
  const Row rows[] = {
      {kLearning, false, false, {kFollowing, kLearning, kPausedUnplanned, std::nullopt, kStopped}},
      {kFollowing, true, false, {kFollowing, kLearning, kPausedFollowing, std::nullopt, kStopped}},
      {kPausedUnplanned, false, true, {std::nullopt, std::nullopt, std::nullopt, kLearning, kStopped}},
      {kPausedFollowing, true, true, {std::nullopt, std::nullopt, std::nullopt, kFollowing, kStopped}},
      {kStopped, false, false, {std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt}},
  };
  constexpr std::array<Event, 5> events = {Event::kActivated, Event::kDeactivated, Event::kPaused, Event::kResumed,
                                           Event::kStopped};
  for (const Row& row : rows) {
    EXPECT_EQ(is_following(row.phase), row.is_following) << static_cast<int>(row.phase);
    EXPECT_EQ(is_paused(row.phase), row.is_paused) << static_cast<int>(row.phase);
    for (std::size_t i = 0; i < events.size(); ++i)
      EXPECT_EQ(phase_after(row.phase, events[i]), row.after[i]) << static_cast<int>(row.phase) << " at event " << i;
  }
}

}  // namespace
}  // namespace tensorpager::guide
