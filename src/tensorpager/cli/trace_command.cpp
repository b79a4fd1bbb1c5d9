// `tensorpager trace`: records what a program does in one of its windows, a training step, into a trace file.
#include <filesystem>
#include <memory>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/start_program.h"

namespace tensorpager::cli {
namespace {

struct TraceOptions {
  RunOptions run;
  std::string machine;
};

void check(const TraceOptions& options, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager trace -o step.trace -- python train.py`");
  if (options.run.trace_device == "cuda" && options.machine.empty())
    throw base::InvalidArgument(
        "--device cuda: write --machine CARD, the card to emulate, as in `tensorpager trace --dry --device cuda "
        "--machine h100-80g -o step.trace "
        "-- python train.py`");
  if (options.run.trace_device != "cuda" && !options.machine.empty())
    throw base::InvalidArgument("--machine is the card to emulate: write --device cuda, too");
}

void trace(TraceOptions options, const Program& program) {
  check(options, program);
  options.run.emulate = options.machine;
  base::write_whole_file(options.run.trace, "");  // an unwritable file is an error now, not after hours
  start_program(options.run, program);
}

}  // namespace

void add_trace_command(CLI::App& app, const Program& program) {
  auto options = std::make_shared<TraceOptions>();
  RunOptions& run = options->run;
  run.budget = "unlimited";
  CLI::App* verb = app.add_subcommand("trace",
                                      "Record what a program does in one of its steps:\n  "
                                      "tensorpager trace [OPTIONS] -o FILE -- PROGRAM ARG...");
  verb->add_option("-o,--output", run.trace, "Trace file to write when the program ends [TENSORPAGER_TRACE]")
      ->required();
  verb->add_flag(
      "--dry", run.dry,
      "Skip the kernels of large tensors, which then cost neither time nor memory, and end the program once a "
      "step has repeated: a model larger than this machine is traced in seconds [TENSORPAGER_DRY]");
  verb->add_option(
          "--device", run.trace_device,
          "Whose storages are recorded: cpu, the default, or cuda, which needs no GPU [TENSORPAGER_TRACE_DEVICE]")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  verb->add_option("--machine", options->machine,
                   "With --device cuda: the card to emulate, a named machine or a machine file with a card");
  verb->add_option("--class", run.trace_class,
                   "Of which class of windows: 1, the default, is what makes up most of the run, step that of training "
                   "steps (the default with --dry); the line at exit lists them [TENSORPAGER_TRACE_CLASS]")
      ->check(CLI::PositiveNumber | CLI::IsMember({"step"}));
  verb->add_option("--smallest", run.trace_smallest,
                   "Record storages from this size on; smaller ones count together [16KiB; with --dry all] "
                   "[TENSORPAGER_TRACE_SMALLEST]");
  verb->add_option("--budget", run.budget, "Hard limit on tensor memory of each process [unlimited]");
  add_session_options(*verb, run);
  verb->footer(
      "Example:\n  tensorpager trace -o step.trace -- python train.py --batch 64 --steps 5\n"
      "  tensorpager trace --dry --device cuda --machine h100-80g -o step.trace -- python train.py --batch 1024");
  verb->callback([options, &program] { trace(*options, program); });
}

}  // namespace tensorpager::cli
