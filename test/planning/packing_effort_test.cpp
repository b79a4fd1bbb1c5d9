// What each part of packing's effort is worth, by itself: random intervals into no more space than they take.
#include <gtest/gtest.h>

#include <string>

#include "random_intervals.h"
#include "tensorpager/planning/packing/packing.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

constexpr PackingEffort kNone = {.many_orders = false, .ejection = false, .repairs = 0};

/// The top, of which nothing is wasted if it is the space.
std::uint64_t top(unsigned seed, PackingEffort effort) {
  std::vector<Interval> intervals = random_intervals(seed);
  return pack(intervals, kStarts, most_live(intervals), effort);
}

struct Part {
  const char* name;
  PackingEffort with;
};

class PackingEffortPart : public testing::TestWithParam<Part> {};

TEST_P(PackingEffortPart, NeverWastesMoreAndFitsMore) {
  int lower = 0;
  int fitted = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::uint64_t with = top(seed, GetParam().with);
    const std::uint64_t without = top(seed, kNone);
    ASSERT_LE(with, without);
    lower += with < without ? 1 : 0;
    fitted += with < without && with == most_live(random_intervals(seed)) ? 1 : 0;
  }
  EXPECT_GE(lower, 10);
  EXPECT_GE(fitted, 5);
}

INSTANTIATE_TEST_SUITE_P(Parts, PackingEffortPart,
                         testing::Values(Part{"ManyOrders", {.many_orders = true, .ejection = false, .repairs = 0}},
                                         Part{"Ejection", {.many_orders = false, .ejection = true, .repairs = 0}},
                                         Part{"Repairs", {.many_orders = false, .ejection = false, .repairs = 6}}),
                         [](const auto& instance) { return instance.param.name; });

TEST(PackingEffort, WithoutLooksTriesNoOrders) {
  int higher = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const std::uint64_t without = top(seed, {.looks = 0});
    EXPECT_GE(without, top(seed, {}));
    EXPECT_EQ(without, top(seed, {.many_orders = false, .ejection = false, .repairs = 0, .looks = 0}));
    higher += without > top(seed, {}) ? 1 : 0;
  }
  EXPECT_GE(higher, 10);
}

}  // namespace
}  // namespace tensorpager::planning
