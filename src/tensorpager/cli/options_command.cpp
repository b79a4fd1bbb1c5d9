// `tensorpager options`: the table of options for docs/reference.md. A verb for developers, not listed.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/option_tables.h"

namespace tensorpager::cli {
namespace {

struct OptionsOptions {
  std::string table, document;
};

void rewrite(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw base::InvalidArgument(path + ": cannot be read");
  base::write_whole_file(path, with_option_tables({std::istreambuf_iterator<char>(in), {}}));
}

void show(const OptionsOptions& options) {
  if (!options.document.empty()) return rewrite(options.document);
  for (const std::string& name : option_table_names())
    if (options.table.empty() || options.table == name) std::printf("%s\n", option_table(name).c_str());
}

}  // namespace

void add_options_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<OptionsOptions>();
  CLI::App* verb = app.add_subcommand("options", "Print all options as tables in Markdown");
  verb->group("");
  verb->add_option("table", options->table, "One of the tables")->check(CLI::IsMember(option_table_names()));
  verb->add_option("--write", options->document, "Replace the tables of this document, between its markers, instead")
      ->type_name("FILE");
  verb->footer("Example:\n  tensorpager options --write docs/reference.md");
  verb->callback([options] { show(*options); });
}

}  // namespace tensorpager::cli
