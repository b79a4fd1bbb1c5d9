// `tensorpager run`: runs a program under a budget.
#include <memory>

#include "tensorpager/base/errors.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/start_program.h"

namespace tensorpager::cli {
namespace {

void run(const Settings& settings, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager run --budget 8GiB -- python train.py`");
  const bool is_enough = is_given(settings, "TENSORPAGER_BUDGET") || is_given(settings, "TENSORPAGER_PLAN") ||
                         is_given(settings, "TENSORPAGER_EMULATE");
  if (!is_enough)
    throw base::InvalidArgument(
        "no budget: write --budget SIZE, as in `tensorpager run --budget 8GiB -- python train.py`, or --emulate CARD "
        "to run a CUDA program without a GPU");
  start_program(settings, program);
}

}  // namespace

void add_run_command(CLI::App& app, const Program& program) {
  auto settings = std::make_shared<Settings>();
  CLI::App* verb = app.add_subcommand("run",
                                      "Run a program under a budget, unchanged and with the same results:\n  "
                                      "tensorpager run [OPTIONS] -- PROGRAM ARG...");
  add_options(*verb, base::Taker::kRun, *settings);
  verb->footer("Example:\n  tensorpager run --budget 8GiB --stats run.json -- python train.py --batch 64");
  verb->callback([settings, &program] { run(*settings, program); });
}

}  // namespace tensorpager::cli
