#include "tensorpager/fit/plain.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::fit {
namespace {

using namespace base;
using trace::StorageId;
using trace::Trace;

TEST(ReservedByTorch, IsSegmentsOfTheStepsThatRepeat) {
  Trace trace{.granule = 512_B};
  trace.storages = {{.bytes = 30_MiB, .entry = true}, {.bytes = 12_MiB}, {.bytes = 4_KiB}};
  trace.ops = {{.name = "a", .births = {StorageId{1}}},
               {.name = "b", .births = {StorageId{2}}, .deaths = {StorageId{1}, StorageId{2}}, .temporary = 5_MiB}};
  EXPECT_EQ(reserved_by_torch(trace), 30_MiB + 12_MiB + 2_MiB + 20_MiB) << "one segment each";
  trace.ops[0].deaths = {StorageId{1}};
  trace.ops[1].deaths = {StorageId{2}};
  EXPECT_EQ(reserved_by_torch(trace), 30_MiB + 12_MiB + 2_MiB) << "the temporary fits where the other one was";
}

TEST(ReservedByTorch, TakesNothingForEmptyStorages) {
  Trace trace{.granule = 512_B};
  trace.storages = {{.bytes = 0_B, .entry = true}};
  trace.ops = {{.name = "a", .reads = {StorageId{0}}}};
  EXPECT_EQ(reserved_by_torch(trace), 0_B);
}

/// 1 MiB of output a sample, of which each has a segment of its own from 10 samples on.
Trace step_of(std::uint64_t samples) {
  Trace trace{.granule = 512_B};
  trace.storages = {{.bytes = 30_MiB, .entry = true}, {.bytes = Bytes(samples << 20)}};
  trace.ops = {{.name = "a", .births = {StorageId{1}}}, {.name = "b", .deaths = {StorageId{1}}}};
  return trace;
}

class LargestPlain : public testing::Test {
 protected:
  static constexpr std::uint64_t kMost = 1000;

  Plain find(base::Bytes room, std::uint64_t most = kMost) {
    return largest_plain(scaling_, room, most, {{16, reserved(16)}, {32, reserved(32)}}, [&](std::uint64_t size) {
      asked_.push_back(size);
      return can_ask_ ? std::optional(reserved(size)) : std::nullopt;
    });
  }
  base::Bytes reserved(std::uint64_t size) const {
    return reserved_by_torch(step_of(size)) + Bytes(error_a_sample_.count() * size);
  }

  const Scaling scaling_{{.size = 16, .trace = step_of(16)}, {.size = 32, .trace = step_of(32)}};
  base::Bytes error_a_sample_;
  bool can_ask_ = true;
  std::vector<std::uint64_t> asked_;
};

TEST_F(LargestPlain, IsConfirmedByTheAllocator) {
  const Plain found = find(231_MiB);
  EXPECT_EQ(found.size, 200u) << "odd sizes reserve for one more";
  EXPECT_EQ(found.reserved, 230_MiB);
  EXPECT_TRUE(found.is_confirmed);
  EXPECT_EQ(asked_, std::vector<std::uint64_t>{200});
}

TEST_F(LargestPlain, IsTheAllocatorsWhereTheModelErrsTheMoreTheLargerTheSize) {
  for (const base::Bytes error : {64_KiB, 512_KiB, 3_MiB}) {
    SCOPED_TRACE(error.count());
    error_a_sample_ = error;
    asked_.clear();
    const Plain found = find(600_MiB);
    EXPECT_EQ(found.reserved, reserved(found.size));
    EXPECT_LE(reserved(found.size), 600_MiB);
    EXPECT_GT(reserved(found.size + 1), 600_MiB);
    EXPECT_TRUE(found.is_confirmed);
    EXPECT_LE(asked_.size(), 4u);
  }
}

TEST_F(LargestPlain, IsTheModelsWhereTheProgramCannotRun) {
  can_ask_ = false;
  error_a_sample_ = 2_MiB;  // known at 32, and taken for the same at every size
  const Plain found = find(231_MiB);
  EXPECT_EQ(found.size, 136u);
  EXPECT_EQ(found.reserved, 230_MiB);
  EXPECT_FALSE(found.is_confirmed);
}

TEST_F(LargestPlain, IsNoneOnlyIfTheAllocatorSaysSoOfOne) {
  const Plain found = find(10_MiB);
  EXPECT_EQ(found.size, 0u);
  EXPECT_TRUE(found.is_confirmed);
  EXPECT_EQ(asked_, std::vector<std::uint64_t>{1});
}

TEST_F(LargestPlain, AsksForNothingThatIsKnown) {
  EXPECT_EQ(find(62_MiB, 32).size, 32u) << "more makes no sense to the program";
  EXPECT_TRUE(asked_.empty());
}

}  // namespace
}  // namespace tensorpager::fit
