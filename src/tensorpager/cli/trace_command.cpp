// `tensorpager trace`: records one of the windows of a program, as a training step, in a trace file.
#include <memory>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/start_program.h"

namespace tensorpager::cli {
namespace {

struct TraceOptions {
  Settings settings;
  std::string machine;
};

void check(const TraceOptions& options, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager trace -o step.trace -- python train.py`");
  const bool records_card = options.settings.at("TENSORPAGER_DEVICE") == "cuda";
  if (records_card && options.machine.empty())
    throw base::InvalidArgument(
        "--device cuda: write --machine CARD, the card to emulate, as in `tensorpager trace --dry --device cuda "
        "--machine h100-80g -o step.trace "
        "-- python train.py`");
  if (!records_card && !options.machine.empty())
    throw base::InvalidArgument("--machine is the card to emulate: write --device cuda, too");
}

void trace(TraceOptions options, const Program& program) {
  check(options, program);
  options.settings["TENSORPAGER_EMULATE"] = options.machine;
  prepare_program(options.settings, program);
  // Reports an unwritable file now, not after hours.
  base::write_whole_file(options.settings.at("TENSORPAGER_TRACE"), "");
  execute_program(program);
}

}  // namespace

void add_trace_command(CLI::App& app, const Program& program) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* verb = app.add_subcommand("trace",
                                      "Record what a program does in one of its steps:\n  "
                                      "tensorpager trace [OPTIONS] -o FILE -- PROGRAM ARG...");
  add_options(*verb, base::Taker::kTrace, options->settings);
  options->settings["TENSORPAGER_BUDGET"] = "unlimited";
  verb->get_option("--budget")->capture_default_str();
  verb->get_option("--output")->required();
  verb->get_option("--device")->check(CLI::IsMember({"cpu", "cuda"}));
  verb->get_option("--class")->check(CLI::PositiveNumber | CLI::IsMember({"step"}));
  verb->add_option("--machine", options->machine,
                   "With --device cuda: the card to emulate, a named machine or a machine file with a card")
      ->type_name("CARD");
  verb->footer(
      "Example:\n  tensorpager trace -o step.trace -- python train.py --batch 64 --steps 5\n"
      "  tensorpager trace --dry --device cuda --machine h100-80g -o step.trace -- python train.py --batch 1024");
  verb->callback([options, &program] { trace(*options, program); });
}

}  // namespace tensorpager::cli
