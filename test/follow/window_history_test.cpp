#include "tensorpager/follow/window_history.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>

namespace tensorpager::follow {
namespace {

WindowHistory history_of(std::initializer_list<std::size_t> windows) {
  WindowHistory history(3);
  for (const std::size_t i : windows) history.note(i);
  return history;
}

TEST(WindowHistory, KnowsNothingOfAClassThatIsNew) {
  EXPECT_EQ(history_of({}).likely_next(), std::nullopt);
  EXPECT_EQ(history_of({0}).likely_next(), std::nullopt);
  EXPECT_EQ(history_of({0, 0, 0, 1}).likely_next(), std::nullopt);
}

TEST(WindowHistory, ExpectsWhatCameAfterTheLongestSequenceThatEqualsTheLast) {
  EXPECT_EQ(history_of({0, 0, 1, 0, 0}).likely_next(), 1u);
  EXPECT_EQ(history_of({2, 0, 1, 0, 2, 0}).likely_next(), 1u) << "after one window alone it is 2 as often";
}

TEST(WindowHistory, ExpectsOfSeveralWhatCameMostOftenAndThenTheNewest) {
  EXPECT_EQ(history_of({0, 1, 0, 1, 0, 2, 0}).likely_next(), 1u);
  EXPECT_EQ(history_of({0, 1, 0, 2, 0}).likely_next(), 2u);
}

TEST(WindowHistory, TakesBackAWindowThatWasTheBeginOfALongerOne) {
  WindowHistory history = history_of({0, 0, 1, 0, 0});
  history.note(0);
  history.take_back();
  EXPECT_EQ(history.last(), 0u);
  EXPECT_EQ(history.likely_next(), 1u);
}

TEST(WindowHistory, StartsAnew) {
  WindowHistory history = history_of({0, 0, 1, 0, 0});
  history.start_after(2);
  EXPECT_EQ(history.last(), 2u);
  EXPECT_EQ(history.likely_next(), std::nullopt);
}

TEST(WindowHistory, ForgetsWhatWasLongAgo) {
  WindowHistory history = history_of({2, 1});
  for (int i = 0; i < 512; ++i) history.note(0);
  history.note(2);
  EXPECT_EQ(history.likely_next(), std::nullopt);
}

}  // namespace
}  // namespace tensorpager::follow
