// The rows of base/options.h as tables in Markdown, for docs/reference.md.
#pragma once

#include <string>
#include <vector>

namespace tensorpager::cli {

/// The names of the tables: `run`, `trace` (what `run` does not take), `variables` (without an option), `tests`. Each
/// row of base/options.h is in one of them.
std::vector<std::string> option_table_names();

/// Throws InvalidArgument if there is no such table.
std::string option_table(const std::string& name);

/// `document` with what stands between `<!-- options: NAME -->` and `<!-- /options -->` replaced by that table. Throws
/// InvalidArgument for a name that is none or a beginning without an end.
std::string with_option_tables(const std::string& document);

}  // namespace tensorpager::cli
