#include "tensorpager/fit/plain.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tensorpager::fit
