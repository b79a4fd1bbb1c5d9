#include "tensorpager/cli/option_tables.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/options.h"

namespace tensorpager::cli {
namespace {

std::string error_of(const std::string& document) {
  try {
    with_option_tables(document);
  } catch (const base::InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(OptionTables, OfTheReferenceAreThoseOfTheRows) {
  std::ifstream in(TENSORPAGER_TEST_DATA "/../../docs/reference.md");
  const std::string reference{std::istreambuf_iterator<char>(in), {}};
  for (const std::string& name : option_table_names())
    EXPECT_NE(reference.find("<!-- options: " + name + " -->\n"), std::string::npos) << name << " is missing";
  EXPECT_EQ(with_option_tables(reference), reference) << "run `tensorpager options --write docs/reference.md`";
}

TEST(OptionTables, HaveEachRowOnce) {
  std::string all;
  for (const std::string& name : option_table_names()) all += option_table(name);
  for (const base::Option& option : base::options()) {
    const std::string cell = std::string("| `") + option.variable + "=";
    const std::size_t first = all.find(cell);
    ASSERT_NE(first, std::string::npos) << option.variable;
    EXPECT_EQ(all.find(cell, first + 1), std::string::npos) << option.variable;
  }
}

TEST(OptionTables, ShowOptionVariableKeywordAndMeaning) {
  EXPECT_NE(option_table("run").find("| `--on-demand` | `TENSORPAGER_ON_DEMAND=1` | `on_demand` | Make no plan: "),
            std::string::npos);
  EXPECT_NE(option_table("run").find("| `--stats FILE` | `TENSORPAGER_STATS=FILE` | `stats` (C++) | "),
            std::string::npos);
  EXPECT_NE(option_table("trace").find("| `-o`, `--output FILE` | `TENSORPAGER_TRACE=FILE` |  | Trace file"),
            std::string::npos);
  EXPECT_EQ(option_table("trace").find("--budget"), std::string::npos);
  EXPECT_NE(option_table("tests").find("| `--fuzz SEED` | "), std::string::npos);
  EXPECT_THROW(option_table("walk"), base::InvalidArgument);
}

TEST(WithOptionTables, ReplacesWhatStandsBetweenTheMarkersAndNothingElse) {
  const std::string begin = "# All\n<!-- options: variables -->\n", end = "<!-- /options -->\nand more\n";
  EXPECT_EQ(with_option_tables(begin + "| old |\n" + end), begin + option_table("variables") + end);
  EXPECT_EQ(with_option_tables(begin + end + begin + end),
            begin + option_table("variables") + end + begin + option_table("variables") + end);
  EXPECT_EQ(with_option_tables("no table"), "no table");
}

TEST(WithOptionTables, RefusesAnUnknownNameAndABeginningWithoutAnEnd) {
  EXPECT_EQ(error_of("<!-- options: walk -->\n<!-- /options -->"), "'walk' is no table of options");
  EXPECT_EQ(error_of("<!-- options: run -->\n| row |"), "'<!-- options: run -->' has no end <!-- /options -->");
}

}  // namespace
}  // namespace tensorpager::cli
