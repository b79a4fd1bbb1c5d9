// The rows of base/options.h as tables in Markdown, for docs/reference.md.
#pragma once

#include <string>
#include <vector>

namespace tensorpager::cli {

/// The names of the tables: `run`, `trace` (options that `run` does not have), `variables` (without an option),
/// `tests`. Each row of base/options.h is in one of them.
std::vector<std::string> option_table_names();

/// Throws InvalidArgument if there is no such table.
std::string option_table(const std::string& name);

/// Returns `document` with the text between `<!-- options: NAME -->` and `<!-- /options -->` replaced by that table.
/// Throws InvalidArgument for an unknown name, or a beginning without an end.
std::string with_option_tables(const std::string& document);

}  // namespace tensorpager::cli
