#include "tensorpager/cli/option_tables.h"

#include <algorithm>
#include <iterator>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/options.h"

namespace tensorpager::cli {
namespace {

using base::Option;
using base::Taker;

struct Table {
  const char* name;
  bool (*has)(const Option&);
};

constexpr Table kTables[] = {
    {"run", [](const Option& option) { return option.is_taken_by(Taker::kRun) && !option.is_for_tests; }},
    {"trace",
     [](const Option& option) {
       return option.is_taken_by(Taker::kTrace) && !option.is_taken_by(Taker::kRun) && !option.is_for_tests;
     }},
    {"variables", [](const Option& option) { return option.takers == 0 && !option.is_for_tests; }},
    {"tests", [](const Option& option) { return option.is_for_tests; }},
};

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

/// `--plan FILE`; a switch has no value on the command line.
std::string as_option(const Option& option) {
  std::string name = option.name;
  if (const auto comma = name.find(','); comma != std::string::npos) name.replace(comma, 1, "`, `");
  return code(option.kind == base::ValueKind::kSwitch || name.empty() ? name : name + " " + option.value);
}

/// `TENSORPAGER_PLAN=FILE`.
std::string as_variable(const Option& option) { return code(std::string(option.variable) + "=" + option.value); }

/// The name of the parameter in Python and C++, if there is one.
std::string as_keyword(const Option& option) {
  const bool in_python = option.is_taken_by(Taker::kPython), in_cpp = option.is_taken_by(Taker::kCpp);
  if (!in_python && !in_cpp) return "";
  return code(option.keyword()) + (in_python && in_cpp ? "" : in_python ? " (Python)" : " (C++)");
}

}  // namespace

std::vector<std::string> option_table_names() {
  std::vector<std::string> names;
  for (const Table& table : kTables) names.emplace_back(table.name);
  return names;
}

std::string option_table(const std::string& name) {
  const auto* const table =
      std::find_if(std::begin(kTables), std::end(kTables), [&](const Table& one) { return one.name == name; });
  if (table == std::end(kTables)) throw base::InvalidArgument("'" + name + "' is no table of options");
  std::string text = "| option | variable | keyword | what it does |\n|---|---|---|---|\n";
  for (const Option& option : base::options())
    if (table->has(option))
      text += "| " + as_option(option) + " | " + as_variable(option) + " | " + as_keyword(option) + " | " +
              option.help + " |\n";
  return text;
}

std::string with_option_tables(const std::string& document) {
  const std::string kBegin = "<!-- options: ", kBeginEnd = " -->\n", kEnd = "<!-- /options -->";
  std::string text;
  std::size_t copied = 0;
  for (std::size_t begin; (begin = document.find(kBegin, copied)) != std::string::npos;) {
    const std::size_t name = begin + kBegin.size();
    const std::size_t name_end = document.find(kBeginEnd, name);
    const std::size_t end = document.find(kEnd, name);
    if (name_end == std::string::npos || end == std::string::npos || name_end > end)
      throw base::InvalidArgument("'" + document.substr(begin, document.find('\n', begin) - begin) +
                                  "' has no end <!-- /options -->");
    const std::size_t table = name_end + kBeginEnd.size();
    text += document.substr(copied, table - copied) + option_table(document.substr(name, name_end - name));
    copied = end;
  }
  return text + document.substr(copied);
}

}  // namespace tensorpager::cli
