#include "tensorpager/base/config.h"

#include <gtest/gtest.h>

#include <map>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

using Variables = std::map<std::string, std::string>;

/// The table must outlive what is returned, as a program's environment does.
Environment environment_of(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Config config_of(const Variables& variables) { return read_config(environment_of(variables)); }

std::string error_of(const Variables& variables) {
  try {
    config_of(variables);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReadConfig, LimitsNothingAndSaysALineAtExitWhereNothingIsSet) {
  const Config config = config_of({});
  EXPECT_EQ(config.budget, kUnlimited);
  EXPECT_EQ(config.spill, "");
  EXPECT_EQ(config.stats, "");
  EXPECT_FALSE(config.quiet);
  EXPECT_EQ(config.fuzz, std::nullopt);
  EXPECT_EQ(config.fuzz_evictions, 2u);
  EXPECT_EQ(config.witness_ops, 0u);
  EXPECT_FALSE(config.curve);
}

TEST(ReadConfig, ReadsEveryVariable) {
  const Config config = config_of({{"TENSORPAGER_BUDGET", "1.5GiB"},
                                   {"TENSORPAGER_SPILL", "/tmp/x y"},
                                   {"TENSORPAGER_STATS", "s.json"},
                                   {"TENSORPAGER_QUIET", "1"},
                                   {"TENSORPAGER_FUZZ", "18446744073709551615"},
                                   {"TENSORPAGER_FUZZ_EVICTIONS", "7"},
                                   {"TENSORPAGER_WITNESS", "100"},
                                   {"TENSORPAGER_ON_DEMAND", "1"},
                                   {"TENSORPAGER_PLAN_SYNC", "on"},
                                   {"TENSORPAGER_PLAN", "a.plan:b.plan"},
                                   {"TENSORPAGER_PLAN_CACHE", "plans"},
                                   {"TENSORPAGER_CURVE", "yes"}});
  EXPECT_EQ(config.plan_cache, "plans");
  EXPECT_FALSE(config.plans);
  EXPECT_TRUE(config.plan_sync);
  EXPECT_EQ(config.plan, "a.plan:b.plan");
  EXPECT_EQ(config.budget, 1536_MiB);
  EXPECT_EQ(config.spill, "/tmp/x y");
  EXPECT_EQ(config.stats, "s.json");
  EXPECT_TRUE(config.quiet);
  EXPECT_EQ(config.fuzz, ~std::uint64_t{0});
  EXPECT_EQ(config.fuzz_evictions, 7u);
  EXPECT_EQ(config.witness_ops, 100u);
  EXPECT_TRUE(config.curve);
}

TEST(ReadConfig, ReadsWhatToRecord) {
  EXPECT_EQ(config_of({}).trace, "");
  const Config config = config_of({{"TENSORPAGER_TRACE", "/tmp/step.trace"}, {"TENSORPAGER_TRACE_CLASS", "2"}});
  EXPECT_EQ(config.trace, "/tmp/step.trace");
  EXPECT_EQ(config.trace_class, 2u);
  EXPECT_EQ(error_of({{"TENSORPAGER_TRACE_CLASS", "0"}}), "TENSORPAGER_TRACE_CLASS: '0' where counting begins with 1");
}

TEST(ReadConfig, ABudgetSaysWhoseMemoryItIsFor) {
  EXPECT_EQ(config_of({{"TENSORPAGER_BUDGET", "2GiB"}}).device, Device::kHost);
  const Config card = config_of({{"TENSORPAGER_BUDGET", "cuda=2GiB"}});
  EXPECT_EQ(card.device, Device::kCuda);
  EXPECT_EQ(card.budget, 2_GiB);
  EXPECT_EQ(config_of({{"TENSORPAGER_BUDGET", "cpu=2GiB"}, {"TENSORPAGER_DEVICE", "cuda"}}).device, Device::kHost);
  EXPECT_EQ(error_of({{"TENSORPAGER_BUDGET", "tpu=2GiB"}}), "TENSORPAGER_BUDGET: 'tpu' is neither cpu nor cuda");
  EXPECT_EQ(error_of({{"TENSORPAGER_BUDGET", "cuda=2GiB,cpu=4GiB"}}),
            "TENSORPAGER_BUDGET: 'cuda=2GiB,cpu=4GiB' are two budgets, and a process has one: of cpu or of cuda");
}

TEST(ReadConfig, AShareOfACardIsABudgetOnceTheCardIsKnown) {
  const Config share = config_of({{"TENSORPAGER_BUDGET", "cuda=80%"}});
  EXPECT_EQ(share.share_of_card, "80%");
  EXPECT_EQ(share.budget, kUnlimited);
  EXPECT_EQ(config_of({{"TENSORPAGER_BUDGET", "12.5%"}, {"TENSORPAGER_DEVICE", "cuda"}}).share_of_card, "12.5%");
  EXPECT_EQ(config_of({{"TENSORPAGER_BUDGET", "80%"}}).share_of_card, "");
  EXPECT_EQ(
      error_of({{"TENSORPAGER_BUDGET", "cuda=most%"}}),
      "TENSORPAGER_BUDGET: 'most%' is not a size; write bytes, KiB/MiB/GiB, KB/MB/GB, N% of the memory or unlimited");
}

TEST(ReadConfig, DryRunRecordsAllStoragesOfATrainingStepUnlessSaidOtherwise) {
  EXPECT_EQ(config_of({}).trace_smallest, kMinPagedBytes);
  EXPECT_EQ(config_of({}).device, Device::kHost);
  const Config dry = config_of({{"TENSORPAGER_DRY", "1"}, {"TENSORPAGER_DEVICE", "cuda"}});
  EXPECT_TRUE(dry.dry);
  EXPECT_EQ(dry.dry_longer, std::chrono::seconds(0));
  EXPECT_EQ(dry.trace_smallest, 0_B);
  EXPECT_EQ(dry.trace_class, 0u);
  EXPECT_EQ(dry.device, Device::kCuda);
  const Config said =
      config_of({{"TENSORPAGER_DRY", "1"}, {"TENSORPAGER_TRACE_SMALLEST", "4KiB"}, {"TENSORPAGER_TRACE_CLASS", "2"}});
  EXPECT_EQ(said.trace_smallest, 4_KiB);
  EXPECT_EQ(said.trace_class, 2u);
  EXPECT_EQ(config_of({{"TENSORPAGER_DRY_LONGER", "5"}}).dry_longer, std::chrono::seconds(5));
  EXPECT_EQ(config_of({{"TENSORPAGER_TRACE_CLASS", "step"}}).trace_class, 0u);
  EXPECT_EQ(error_of({{"TENSORPAGER_DEVICE", "tpu"}}), "TENSORPAGER_DEVICE: 'tpu' is neither cpu nor cuda");
}

TEST(ReadConfig, TakesASeedOfZeroForASeed) { EXPECT_EQ(config_of({{"TENSORPAGER_FUZZ", "0"}}).fuzz, 0u); }

TEST(ReadConfig, ReadsAShareOfTheMachinesMemory) {
  EXPECT_EQ(config_of({{"TENSORPAGER_BUDGET", "50%"}}).budget, Bytes(physical_memory().count() / 2));
}

TEST(ReadConfig, DividesAShareByTheRanksOnTheMachineAndNothingElse) {
  const auto budget = [](const char* text, const char* ranks) {
    return config_of({{"TENSORPAGER_BUDGET", text}, {"LOCAL_WORLD_SIZE", ranks}}).budget;
  };
  EXPECT_EQ(budget("50%", "4"), Bytes(physical_memory().count() / 8));
  EXPECT_EQ(budget("50%", ""), Bytes(physical_memory().count() / 2));
  EXPECT_EQ(budget("8GiB", "4"), 8_GiB);
  EXPECT_EQ(budget("unlimited", "4"), kUnlimited);
}

TEST(ReadConfig, RefusesANumberOfRanksThatIsNone) {
  EXPECT_EQ(error_of({{"LOCAL_WORLD_SIZE", "two"}}), "LOCAL_WORLD_SIZE: 'two' is not a whole number");
  EXPECT_EQ(error_of({{"LOCAL_WORLD_SIZE", "0"}}), "LOCAL_WORLD_SIZE: '0' ranks on this machine");
}

TEST(ReadConfig, TakesAnEmptyVariableForOneThatIsNotSet) {
  const Config config = config_of({{"TENSORPAGER_BUDGET", ""}, {"TENSORPAGER_FUZZ", ""}, {"TENSORPAGER_QUIET", ""}});
  EXPECT_EQ(config.budget, kUnlimited);
  EXPECT_EQ(config.fuzz, std::nullopt);
  EXPECT_FALSE(config.quiet);
}

TEST(ReadConfig, ReadsSwitchesAsPeopleWriteThem) {
  for (const char* on : {"1", "true", "yes", "on"}) EXPECT_TRUE(config_of({{"TENSORPAGER_QUIET", on}}).quiet) << on;
  for (const char* off : {"0", "false", "no", "off"})
    EXPECT_FALSE(config_of({{"TENSORPAGER_QUIET", off}}).quiet) << off;
}

TEST(ReadConfig, NamesTheVariableAndItsText) {
  EXPECT_EQ(error_of({{"TENSORPAGER_QUIET", "maybe"}}), "TENSORPAGER_QUIET: 'maybe' is neither 1 nor 0");
  EXPECT_EQ(error_of({{"TENSORPAGER_CURVE", "2"}}), "TENSORPAGER_CURVE: '2' is neither 1 nor 0");
  for (const char* count : {"x", "-1", "1.5", "7 ", "18446744073709551616"}) {
    EXPECT_EQ(error_of({{"TENSORPAGER_WITNESS", count}}),
              "TENSORPAGER_WITNESS: '" + std::string(count) + "' is not a whole number");
  }
  const std::string budget = error_of({{"TENSORPAGER_BUDGET", "8 pounds"}});
  EXPECT_EQ(budget.find("TENSORPAGER_BUDGET: "), 0u) << budget;
  EXPECT_NE(budget.find("8 pounds"), std::string::npos) << budget;
}

TEST(DefaultSpillDirectory, IsTheTemporaryDirectory) {
  const Variables set = {{"TMPDIR", "/var/tmp"}};
  const Variables empty = {{"TMPDIR", ""}};
  const Variables none;
  EXPECT_EQ(default_spill_directory(environment_of(set)), "/var/tmp");
  EXPECT_EQ(default_spill_directory(environment_of(empty)), "/tmp");
  EXPECT_EQ(default_spill_directory(environment_of(none)), "/tmp");
}

}  // namespace
}  // namespace tensorpager::base
