// `tensorpager estimate`: what a program needs on a card that this machine does not have. It runs the program dry,
// reads what torch's own allocator did, and simulates what less memory would cost.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/dry_program.h"
#include "tensorpager/cli/emulate.h"
#include "tensorpager/cli/estimate_screen.h"
#include "tensorpager/fit/estimate.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {
namespace {

namespace files = std::filesystem;

struct EstimateOptions {
  std::string card, trace, budget;
  bool json = false, verbose = false;
};

constexpr std::string_view kTrace = "step.trace";  // its name among temporary files

/// Reports an unwritable file now, not after the dry run, and changes nothing.
void require_writable(const files::path& file) {
  std::error_code ignored;
  const bool is_there = files::exists(file, ignored);
  const files::path folder = file.parent_path();
  int error = 0;
  if (is_there && files::is_directory(file, ignored))
    error = EISDIR;
  else if (!is_there && files::exists(folder, ignored) && !files::is_directory(folder, ignored))
    error = ENOTDIR;
  else if (access(is_there ? file.c_str() : folder.c_str(), is_there ? W_OK : W_OK | X_OK) != 0)
    error = errno;
  if (error != 0) throw base::IoError("write", file, base::Bytes(0), error);
}

/// Writes the traces of all ranks beside each other, as a traced program does.
void keep_traces(const Scratch& scratch, const files::path& file) {
  for (const auto& entry : files::directory_iterator(scratch.path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kTrace)) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    base::write_whole_file(file.string() + name.substr(kTrace.size()), text);
  }
}

fit::Estimate look_at(const machine::Machine& machine, std::optional<base::Bytes> asked, const DryRun& run) {
  const TorchMemory torch = torch_memory_of(run);
  return fit::estimate(trace::read_trace_file(run.trace.string()), machine, torch.most_allocated, torch.most_reserved,
                       asked);
}

void estimate(const EstimateOptions& options, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager estimate --machine h100-80g -- python train.py`");
  const machine::Machine machine = machine::find_machine(machine_of_card(options.card));
  if (!machine.card) throw base::InvalidArgument(options.card + ": has no record `card`, so it cannot be emulated");
  std::optional<base::Bytes> asked;
  if (!options.budget.empty()) asked = base::parse_size(options.budget, machine.card->memory);
  const Scratch scratch;
  if (!options.trace.empty()) require_writable(files::absolute(options.trace));
  const DryRun run{.card = options.card,
                   .trace = scratch / std::string(kTrace),
                   .stats = scratch / "stats.json",
                   .log = options.verbose ? files::path() : scratch / "log",
                   .budget = machine.card->memory,
                   .longer = kLonger};
  run_dry(run, program, "estimate");
  if (!options.trace.empty()) keep_traces(scratch, options.trace);
  const fit::Estimate found = look_at(machine, asked, run);
  if (options.json)
    print_estimate_json(options.card, found);
  else
    print_estimate(options.card, found);
}

}  // namespace

void add_estimate_command(CLI::App& app, const Program& program) {
  auto options = std::make_shared<EstimateOptions>();
  CLI::App* verb = app.add_subcommand("estimate",
                                      "What a CUDA program needs on a card, and what less would cost; needs no GPU:\n  "
                                      "tensorpager estimate --machine CARD [OPTIONS] -- PROGRAM ARG...");
  verb->add_option("--machine", options->card, "The card: a named machine, or a machine file with a card")->required();
  verb->add_option("--budget", options->budget, "What this budget would cost, too: 8GiB, or 50% of the card");
  verb->add_option("-o,--output", options->trace, "Keep the trace of a step in this file");
  verb->add_flag("--json", options->json, "One JSON object instead of a screen");
  verb->add_flag("--verbose", options->verbose, "Show what the program prints");
  verb->footer("Example:\n  tensorpager estimate --machine h100-80g -- python train.py --batch 512");
  verb->callback([options, &program] { estimate(*options, program); });
}

}  // namespace tensorpager::cli
