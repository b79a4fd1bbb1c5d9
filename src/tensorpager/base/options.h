// Every option, one row each: read_config, `tensorpager run` and `trace`, tensorpager.enable(), api::Options and the
// tables of docs/reference.md are fed from these rows.
//
// To add an option: a row in options.cpp and the field of Config that it sets. If programs may set it (Taker::kPython,
// Taker::kCpp), also the parameter of enable() and the field of api::Options that are named for it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tensorpager/base/config.h"

namespace tensorpager::base {

/// How the command line and Python turn a value into the variable's text.
enum class ValueKind : std::uint8_t {
  kText,            // unchanged
  kSwitch,          // 1 or 0; on the command line an option without a value
  kPath,            // made absolute on the command line, since programs may change their directory
  kPaths,           // the same, for several paths with colons between them
  kDirectoryOrRam,  // the same, except for the word `ram`
};

/// Which interfaces offer an option by name. Its variable is always read.
enum class Taker : std::uint8_t {
  kRun = 1,     // tensorpager run
  kTrace = 2,   // tensorpager trace
  kPython = 4,  // tensorpager.enable()
  kCpp = 8,     // tensorpager::Options
};

struct Option {
  const char* name = "";      // on the command line: `--budget`, `-o,--output`; empty: variable only
  const char* variable = "";  // TENSORPAGER_BUDGET
  const char* value = "";     // what the help calls the value: SIZE; of a switch, what turns it on
  ValueKind kind = ValueKind::kText;
  std::uint8_t takers = 0;  // bits of Taker
  bool is_for_tests = false;
  const char* help = "";  // one line; with Markdown's `code`, which the command line drops
  void (*read)(Config& config, std::string_view text) = nullptr;  // null: another module reads the variable

  bool is_taken_by(Taker taker) const { return (takers & static_cast<std::uint8_t>(taker)) != 0; }
  /// The parameter of enable() and the field of api::Options: `plan_cache` for `--plan-cache`.
  std::string keyword() const;
};

/// All rows, in the order in which they are read; a row may depend on those before it.
std::span<const Option> options();

/// The row of `variable`, which must exist.
const Option& option_of(std::string_view variable);

/// Reads the values that a program gave, by keyword, and the variables for the others. Throws InvalidArgument as
/// read_config does, and for a keyword that `taker` does not have.
Config read_config(const Environment& environment, Taker taker, const std::map<std::string, std::string>& given);

}  // namespace tensorpager::base
