#include "tensorpager/base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace tensorpager::base {
namespace {

TEST(Stopwatch, AddsTheSecondsOfItsLifeToWhatIsThere) {
  double total = 100;
  const double begin = seconds_now();
  {
    const Stopwatch watch(total);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const double outside = seconds_now() - begin;
  EXPECT_GE(total, 100.010);
  EXPECT_LE(total, 100 + outside + 1e-9);
}

}  // namespace
}  // namespace tensorpager::base
