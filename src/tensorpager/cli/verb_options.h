// Options of a verb from the rows of base/options.h, and their values, which are written into the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "tensorpager/base/options.h"

namespace tensorpager::cli {

/// The chosen options by variable: the text as it was given, `1` for a switch; empty if the option was not given.
using Settings = std::map<std::string, std::string>;

/// Adds one row to `verb`. The value is stored in `text`, which must live as long as `verb`.
CLI::Option* add_option(CLI::App& verb, const base::Option& option, std::string& text);

/// Adds all rows that `taker` has.
void add_options(CLI::App& verb, base::Taker taker, Settings& settings);

/// Sets the variables of the given options. Paths become absolute, as programs may change their directory.
void export_settings(const Settings& settings);

/// Whether the option was given or its variable is set.
bool is_given(const Settings& settings, const char* variable);

/// Whether the environment has the variable, with a text that is not empty.
bool is_set(const char* variable);

}  // namespace tensorpager::cli
