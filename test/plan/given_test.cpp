// Plans in files that a session is to follow: what is read, and what is refused.
#include "tensorpager/plan/given.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::plan {

using namespace machine;
using namespace planning;
namespace {

using namespace base;

class GivenPlanTest : public testing::Test {
 protected:
  GivenPlanTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("given_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::filesystem::create_directories(folder_);
    trace_.storages = {{.bytes = 64_KiB, .entry = true}, {.bytes = 64_KiB}, {.bytes = 64_KiB}};
    trace_.ops = {
        {.name = "one", .reads = {trace::StorageId{0}}, .births = {trace::StorageId{1}}},
        {.name = "two", .reads = {trace::StorageId{1}}, .births = {trace::StorageId{2}}},
        {.name = "three", .reads = {trace::StorageId{2}}, .deaths = {trace::StorageId{1}, trace::StorageId{2}}}};
  }
  ~GivenPlanTest() override { std::filesystem::remove_all(folder_); }

  /// Writes trace and plan; where the plan is.
  std::string write(const std::string& name, bool shared_boundary = false) {
    Machine machine;
    machine.name = "test";
    machine.out = machine.in = {.steps = {{.from = {}, .bytes_per_second = 1e9}}};
    const auto planned = make_planner("pages")->plan({.trace = trace_, .machine = machine, .budget = 256_KiB});
    Plan plan = planned.value();
    plan.shared_boundary = shared_boundary;
    curve_ = plan.predicted.curve;
    write_whole_file(path(name + ".trace"), trace::write_trace(trace_));
    write_whole_file(path(name + ".plan"), write_plan(plan));
    return path(name + ".plan");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string refusal(const std::string& paths, Bytes budget = kUnlimited) {
    try {
      read_given_plans(paths, budget);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
  trace::Trace trace_;
  std::vector<Bytes> curve_;
};

TEST_F(GivenPlanTest, IsReadWithTheTraceBesideItAndWithItsCurve) {
  const auto given = read_given_plans(write("step"));
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given.front().trace.ops.size(), 3u);
  EXPECT_EQ(given.front().plan.predicted.curve, curve_);
  EXPECT_EQ(curve_.size(), 3u);
  EXPECT_EQ(budget_of(given), 256_KiB);
}

TEST_F(GivenPlanTest, IsRefusedWithoutItsTrace) {
  const std::string plan = write("step");
  std::filesystem::remove(path("step.trace"));
  EXPECT_NE(refusal(plan).find("step.trace"), std::string::npos) << refusal(plan);
  EXPECT_NE(refusal(path("step.trace")).find("a trace, where a plan is expected"), std::string::npos);
}

TEST_F(GivenPlanTest, IsRefusedForAnotherTrace) {
  const std::string plan = write("step");
  trace_.ops.pop_back();
  trace_.ops.back().deaths = {trace::StorageId{1}, trace::StorageId{2}};
  write_whole_file(path("step.trace"), trace::write_trace(trace_));
  EXPECT_NE(refusal(plan).find("is no plan for"), std::string::npos) << refusal(plan);
}

TEST_F(GivenPlanTest, IsRefusedForALargerBudget) {
  const std::string plan = write("step");
  EXPECT_EQ(refusal(plan, 256_KiB), "accepted");
  EXPECT_NE(refusal(plan, 252_KiB).find("plan again with `tensorpager plan --budget 258048`"), std::string::npos);
}

TEST_F(GivenPlanTest, IsRefusedForAnotherGranule) {
  trace_.granule = Bytes(512);
  EXPECT_NE(refusal(write("step")).find("its granule is 512 bytes"), std::string::npos);
  EXPECT_EQ(read_given_plans(write("step"), kUnlimited, Device::kCuda).size(), 1u);
}

TEST_F(GivenPlanTest, FollowsAnotherOnlyWithACommonBoundaryTable) {
  EXPECT_NE(refusal(write("one") + ":" + write("other")).find("must share a boundary table"), std::string::npos);
  EXPECT_EQ(refusal(":"), "':' names no plan");
  EXPECT_EQ(read_given_plans(write("one", true) + ":" + write("other", true)).size(), 2u);
}

}  // namespace
}  // namespace tensorpager::plan
