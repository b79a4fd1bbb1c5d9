// Plans that are kept for later sessions: what is found again, and what is not.
#include "tensorpager/plan/plan_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::plan {

using namespace machine;
using namespace planning;
namespace {

using namespace base;
using trace::StorageId;

class PlanCacheTest : public testing::Test {
 protected:
  static constexpr Bytes kBudget = 256_KiB;

  PlanCacheTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("plans_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))),
        cache_(folder_.string()) {
    std::filesystem::remove_all(folder_);
    machine_.name = "test";
    machine_.out = machine_.in = {.steps = {{.from = {}, .bytes_per_second = 1e9}}};
  }
  ~PlanCacheTest() override { std::filesystem::remove_all(folder_); }

  /// A weight and a row of blocks, the first of which comes back at the end.
  static trace::Trace window(const std::string& name) {
    trace::Trace trace;
    trace.storages = {{.bytes = 64_KiB, .entry = true, .identity = 7}};
    for (int i = 0; i < 5; ++i) trace.storages.push_back({.bytes = 64_KiB});
    for (std::uint32_t i = 0; i < 5; ++i)
      trace.ops.push_back({.name = name, .reads = {StorageId{i}}, .births = {StorageId{i + 1}}});
    trace.ops.push_back({.name = name,
                         .reads = {StorageId{1}, StorageId{5}},
                         .deaths = {StorageId{1}, StorageId{2}, StorageId{3}, StorageId{4}, StorageId{5}}});
    return trace;
  }
  /// Without the curve, which files do not have.
  std::vector<Plan> plan(const std::vector<const trace::Trace*>& traces) const {
    std::vector<Problem> problems;
    for (const trace::Trace* trace : traces)
      problems.push_back({.trace = *trace, .machine = machine_, .budget = kBudget});
    std::vector<Plan> plans = traces.size() > 1 ? plan_classes(problems).value().plans
                                                : std::vector{make_planner("pages")->plan(problems[0]).value()};
    for (Plan& one : plans) one.predicted.curve.clear();
    return plans;
  }
  std::string only_file() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_EQ(found, "");
      found = entry.path().string();
    }
    return found;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  std::filesystem::path folder_;
  PlanCache cache_;
  Machine machine_;
  trace::Trace one_ = window("one"), other_ = window("other");
};

TEST_F(PlanCacheTest, FindsWhatWasKeptWhateverOpsTookAndBlocksAreCalled) {
  EXPECT_TRUE(cache_.find({&one_}, kBudget).empty()) << "no directory yet";
  const std::vector<Plan> plans = plan({&one_});
  cache_.keep({&one_}, kBudget, plans);
  one_.ops[0].time = std::chrono::nanoseconds(1000);
  one_.storages[0].identity = 8;
  const std::vector<Plan> found = cache_.find({&one_}, kBudget);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(write_plan(found[0]), write_plan(plans[0]));
}

TEST_F(PlanCacheTest, FindsNothingForAnotherProgramOrBudget) {
  cache_.keep({&one_}, kBudget, plan({&one_}));
  EXPECT_TRUE(cache_.find({&one_}, kBudget + 4_KiB).empty());
  EXPECT_TRUE(cache_.find({&other_}, kBudget).empty());
  EXPECT_TRUE(cache_.find({&one_, &other_}, kBudget).empty());
  one_.storages[3].bytes = 60_KiB;
  EXPECT_TRUE(cache_.find({&one_}, kBudget).empty());
}

TEST_F(PlanCacheTest, KeepsPlansOfSeveralClassesTogether) {
  const std::vector<Plan> plans = plan({&one_, &other_});
  cache_.keep({&one_, &other_}, kBudget, plans);
  const std::vector<Plan> found = cache_.find({&one_, &other_}, kBudget);
  ASSERT_EQ(found.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(write_plan(found[i]), write_plan(plans[i]));
  EXPECT_TRUE(cache_.find({&other_, &one_}, kBudget).empty());
  std::vector<Plan> wrong = plans;
  wrong[0].rows[0].storage = StorageId{1000};
  wrong[0].rows[0].fill = Fill::kBoundary;
  cache_.keep({&one_, &other_}, kBudget, wrong);
  EXPECT_TRUE(cache_.find({&one_, &other_}, kBudget).empty());
  cache_.keep({&one_, &other_}, kBudget, {plan({&one_})[0], plan({&other_})[0]});
  EXPECT_TRUE(cache_.find({&one_, &other_}, kBudget).empty()) << "of no common table";
}

TEST_F(PlanCacheTest, DoesNotTrustWhatIsInAFile) {
  const std::vector<Plan> plans = plan({&one_});
  cache_.keep({&one_}, kBudget, plans);
  const std::string path = only_file();
  Plan wrong = plans[0];
  ASSERT_GT(wrong.rows.size(), 2u);
  wrong.rows.pop_back();
  Plan of_another = plans[0];
  of_another.rows[0].storage = StorageId{1000};
  const std::string text = write_plan(plans[0]);
  const std::string texts[] = {
      "", "no plan\n", text.substr(0, text.size() / 2), write_plan(wrong), write_plan(of_another), text + text};
  for (const std::string& broken : texts) {
    write_whole_file(path, broken);
    EXPECT_TRUE(cache_.find({&one_}, kBudget).empty()) << broken;
  }
  write_whole_file(path, text);
  EXPECT_EQ(cache_.find({&one_}, kBudget).size(), 1u);
}

TEST_F(PlanCacheTest, ForgetsTheOldestBeyond64) {
  const std::vector<Plan> plans = plan({&one_});
  cache_.keep({&one_}, kBudget, plans);
  std::filesystem::last_write_time(only_file(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  for (std::uint64_t i = 1; i < 64; ++i) cache_.keep({&one_}, kBudget + Bytes(i * 4096), plans);
  EXPECT_EQ(files(), 64u);
  EXPECT_EQ(cache_.find({&one_}, kBudget).size(), 1u) << "and is the newest now";
  cache_.keep({&one_}, kBudget + 1_GiB, plans);
  EXPECT_EQ(files(), 64u);
  EXPECT_EQ(cache_.find({&one_}, kBudget).size(), 1u);
}

TEST_F(PlanCacheTest, SaysWhereItCannotWrite) {
  write_whole_file(folder_.string(), "a file");
  try {
    cache_.keep({&one_}, kBudget, plan({&one_}));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find(folder_.string()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("--plan-cache"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tensorpager::plan
