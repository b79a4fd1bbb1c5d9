// The rows of base/options.h on the command line: a verb's options, and what was chosen, written into the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "tensorpager/base/options.h"

namespace tensorpager::cli {

/// What was chosen, by variable: the text as it was written, `1` of a switch; empty if nothing was.
using Settings = std::map<std::string, std::string>;

/// Adds one row to `verb`; `text` gets what is chosen, and must live as long as `verb`.
CLI::Option* add_option(CLI::App& verb, const base::Option& option, std::string& text);

/// Adds all rows that `taker` takes.
void add_options(CLI::App& verb, base::Taker taker, Settings& settings);

/// Sets the variables of what was chosen. Paths become absolute, as programs may change their directory.
void export_settings(const Settings& settings);

/// Whether the option was chosen or its variable is set.
bool is_given(const Settings& settings, const char* variable);

/// Whether the environment has it, and not empty.
bool is_set(const char* variable);

}  // namespace tensorpager::cli
