// `tensorpager run`: a program under a budget.
#include <memory>

#include "tensorpager/base/errors.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/start_program.h"

namespace tensorpager::cli {
namespace {

void run(const RunOptions& options, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager run --budget 8GiB -- python train.py`");
  const bool has_budget = !options.budget.empty() || is_set("TENSORPAGER_BUDGET");
  const bool has_plan = !options.plan.empty() || is_set("TENSORPAGER_PLAN");
  const bool is_emulated = !options.emulate.empty() || is_set("TENSORPAGER_EMULATE");
  if (!has_budget && !has_plan && !is_emulated)
    throw base::InvalidArgument(
        "no budget: write --budget SIZE, as in `tensorpager run --budget 8GiB -- python train.py`, or --emulate CARD "
        "to run a CUDA program without a GPU");
  start_program(options, program);
}

}  // namespace

void add_run_command(CLI::App& app, const Program& program) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* verb = app.add_subcommand("run",
                                      "Run a program under a budget, unchanged and with the same results:\n  "
                                      "tensorpager run [OPTIONS] -- PROGRAM ARG...");
  verb->add_option("--budget", options->budget,
                   "Hard limit on tensor memory of each process: 8GiB, 500MB, 25% (of RAM; under torchrun divided by "
                   "the ranks on this machine), unlimited [TENSORPAGER_BUDGET]");
  add_session_options(*verb, *options);
  verb->add_option(
      "--emulate", options->emulate,
      "Run a CUDA program without a GPU, on an emulated card with real numerics: h100-80g, 2xh100-80g, or a "
      "machine file with a card. Without --budget nothing else is done [TENSORPAGER_EMULATE]");
  verb->add_option(
      "--emulate-seed", options->schedule,
      "When the emulated card's kernels run: now (at once, the default), threads (a thread for each stream, "
      "with delays), or a number: in an order drawn from it that starves streams [TENSORPAGER_EMULATE_SEED]");
  verb->add_option("--stats", options->stats, "Write the statistics to this file at exit, as JSON [TENSORPAGER_STATS]");
  verb->add_option("--fuzz", options->fuzz,
                   "Evict at random at every op, from this seed: a test of Tensorpager, slow [TENSORPAGER_FUZZ]");
  verb->add_flag("--on-demand", options->on_demand,
                 "Make no plan: tensors move when they are used or in the way [TENSORPAGER_ON_DEMAND]");
  verb->add_option(
      "--plan", options->plan,
      "Follow this plan from the first op on; its trace is beside it, step.trace for step.plan. Several, "
      "with one boundary table, are separated by colons; without --budget it is theirs [TENSORPAGER_PLAN]");
  verb->add_option("--plan-cache", options->plan_cache,
                   "Keep the plans that are made in this directory, and take from it what an earlier run made for the "
                   "same windows and budget [TENSORPAGER_PLAN_CACHE]");
  verb->add_flag("--plan-sync", options->plan_sync,
                 "Wait where a plan is made, instead of making it beside the program: runs are alike "
                 "[TENSORPAGER_PLAN_SYNC]");
  verb->add_flag("--quiet", options->quiet, "No line at exit or where a plan comes in force [TENSORPAGER_QUIET]");
  verb->footer("Example:\n  tensorpager run --budget 8GiB --stats run.json -- python train.py --batch 64");
  verb->callback([options, &program] { run(*options, program); });
}

}  // namespace tensorpager::cli
