// `tensorpager trace`: records what a program does in one of its windows, a training step, into a trace file.
#include <filesystem>
#include <memory>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/start_program.h"

namespace tensorpager::cli {
namespace {

void trace(RunOptions options, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager trace -o step.trace -- python train.py`");
  base::write_whole_file(options.trace, "");  // what cannot be written is told now, not after hours
  start_program(options, program);
}

}  // namespace

void add_trace_command(CLI::App& app, const Program& program) {
  auto options = std::make_shared<RunOptions>();
  options->budget = "unlimited";
  CLI::App* verb = app.add_subcommand("trace",
                                      "Record what a program does in one of its steps:\n  "
                                      "tensorpager trace [OPTIONS] -o FILE -- PROGRAM ARG...");
  verb->add_option("-o,--output", options->trace, "Trace file to write when the program ends [TENSORPAGER_TRACE]")
      ->required();
  verb->add_option("--class", options->trace_class,
                   "Of which class of windows: 1, the default, is what makes up most of the run; the line at exit "
                   "lists them [TENSORPAGER_TRACE_CLASS]")
      ->check(CLI::PositiveNumber);
  verb->add_option("--budget", options->budget, "Hard limit on tensor memory of each process [unlimited]");
  add_session_options(*verb, *options);
  verb->footer("Example:\n  tensorpager trace -o step.trace -- python train.py --batch 64 --steps 5");
  verb->callback([options, &program] { trace(*options, program); });
}

}  // namespace tensorpager::cli
