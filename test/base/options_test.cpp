#include "tensorpager/base/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

using Keywords = std::vector<std::string>;

Keywords keywords_of(Taker taker) {
  Keywords keywords;
  for (const Option& option : options())
    if (option.is_taken_by(taker)) keywords.push_back(option.keyword());
  return keywords;
}

TEST(Options, HaveOneRowForEachNameAndVariable) {
  std::set<std::string> names, variables;
  for (const Option& option : options()) {
    EXPECT_TRUE(variables.insert(option.variable).second) << option.variable;
    EXPECT_TRUE(*option.name == '\0' || names.insert(option.name).second) << option.name;
  }
}

TEST(Options, SayWhatTheyDoInOneLineThatNeedsNoFullStop) {
  for (const Option& option : options()) {
    const std::string help = option.help;
    ASSERT_FALSE(help.empty()) << option.variable;
    EXPECT_EQ(help.find_first_of("\n|"), std::string::npos) << option.variable;
    EXPECT_NE(help.back(), '.') << option.variable;
    EXPECT_EQ(std::count(help.begin(), help.end(), '`') % 2, 0) << option.variable;
    EXPECT_STRNE(option.value, "") << option.variable;
  }
}

TEST(Options, WithATakerHaveALongName) {
  for (const Option& option : options())
    EXPECT_EQ(option.takers != 0, std::string(option.name).find("--") != std::string::npos) << option.variable;
}

TEST(Options, OfProgramsAreThoseOfRunButForTheEmulatedCardAndInPythonTheStatistics) {
  EXPECT_EQ(keywords_of(Taker::kPython),
            (Keywords{"device", "budget", "pinned", "spill", "link", "binding", "plan", "plan_cache", "on_demand",
                      "recompute", "plan_sync", "quiet", "fuzz", "verify_replay"}));
  EXPECT_EQ(keywords_of(Taker::kCpp),
            (Keywords{"device", "budget", "pinned", "spill", "link", "binding", "plan", "plan_cache", "on_demand",
                      "recompute", "plan_sync", "stats", "quiet", "fuzz", "verify_replay"}));
}

TEST(Options, AreReadAfterWhatTheyDependOn) {
  const auto place = [](std::string_view variable) { return &option_of(variable) - options().data(); };
  EXPECT_LT(place("LOCAL_WORLD_SIZE"), place("TENSORPAGER_BUDGET"));
  EXPECT_LT(place("TENSORPAGER_DEVICE"), place("TENSORPAGER_BUDGET"));
  EXPECT_LT(place("TENSORPAGER_DRY"), place("TENSORPAGER_TRACE_CLASS"));
  EXPECT_LT(place("TENSORPAGER_DRY"), place("TENSORPAGER_TRACE_SMALLEST"));
}

TEST(OptionKeyword, IsTheLongNameWithUnderscores) {
  EXPECT_EQ(option_of("TENSORPAGER_PLAN_CACHE").keyword(), "plan_cache");
  EXPECT_EQ(option_of("TENSORPAGER_TRACE").keyword(), "output");
  EXPECT_EQ(option_of("TENSORPAGER_WITNESS").keyword(), "");
}

TEST(OptionOfDeathTest, StopsWhereThereIsNoSuchVariable) { EXPECT_DEATH(option_of("TENSORPAGER_BUGDET"), "found"); }

TEST(ReadConfigOfAProgram, PutsWhatTheProgramGaveBeforeTheVariables) {
  const Environment environment = [](const char* name) {
    return std::string_view(name) == "TENSORPAGER_BUDGET"  ? "3MiB"
           : std::string_view(name) == "TENSORPAGER_SPILL" ? "/scratch"
                                                           : nullptr;
  };
  const Config config =
      read_config(environment, Taker::kPython, {{"budget", "5MiB"}, {"on_demand", "1"}, {"plan_cache", "plans"}});
  EXPECT_EQ(config.budget, 5_MiB);
  EXPECT_EQ(config.spill, "/scratch");
  EXPECT_FALSE(config.plans);
  EXPECT_EQ(config.plan_cache, "plans");
  EXPECT_EQ(read_config(environment, Taker::kPython, {}).budget, 3_MiB);
  EXPECT_EQ(read_config(environment, Taker::kPython, {{"budget", ""}}).budget, kUnlimited);
}

TEST(ReadConfigOfAProgram, RefusesWhatTheProgramCannotSetAndNamesAWrongValue) {
  const auto error_of = [](Taker taker, const std::map<std::string, std::string>& given) -> std::string {
    try {
      read_config([](const char*) -> const char* { return nullptr; }, taker, given);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of(Taker::kPython, {{"stats", "s.json"}}), "'stats' is no option");
  EXPECT_EQ(error_of(Taker::kCpp, {{"stats", "s.json"}}), "no error");
  EXPECT_EQ(error_of(Taker::kCpp, {{"", "1"}}), "'' is no option");
  EXPECT_EQ(error_of(Taker::kCpp, {{"plan_sync", "maybe"}}), "TENSORPAGER_PLAN_SYNC: 'maybe' is neither 1 nor 0");
}

}  // namespace
}  // namespace tensorpager::base
