// `tensorpager fit`: which batch fits on a machine, and what it costs.
#include <memory>

#include "tensorpager/base/errors.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/fit_picture.h"
#include "tensorpager/cli/fit_run.h"
#include "tensorpager/cli/fit_screen.h"

namespace tensorpager::cli {
namespace {

/// What CLI11 says if not.
std::string is_picture(const std::string& path) {
  return path.ends_with(".svg") || path.ends_with(".html") ? ""
                                                           : "'" + path + "' ends neither with .svg nor with .html";
}

void fit_program(const FitOptions& options, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager fit --machine h100-80g -- python train.py --batch {batch}`");
  if (options.to / 2 < options.from)
    throw base::InvalidArgument("--to " + std::to_string(options.to) + " is less than twice --from " +
                                std::to_string(options.from) + ", and both sizes are traced; give a smaller --from");
  const FitAnswer answer = run_fit(options, program);
  if (options.json)
    print_fit_json(answer);
  else
    print_fit(answer);
  if (!options.output.empty()) write_fit_picture(answer, options.output);
}

}  // namespace

void add_fit_command(CLI::App& app, const Program& program) {
  auto options = std::make_shared<FitOptions>();
  CLI::App* verb = app.add_subcommand("fit",
                                      "Which batch fits on a machine, and what it costs; needs no GPU:\n  "
                                      "tensorpager fit --machine CARD [OPTIONS] -- PROGRAM ARG... {batch} ARG...");
  verb->add_option(
          "--machine", options->machine,
          "The card: a named machine or a machine file with a card. Without a card the program runs on the CPU")
      ->required();
  verb->add_option("--budget", options->budget,
                   "Memory for tensors: 8GiB, or 50% of the card. Default: the card without 512 MiB for CUDA itself");
  verb->add_option("--overhead", options->overhead, "The overhead that the quickest size may have, in percent")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--from", options->from, "The smallest size that is traced; the other one is twice that")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--to", options->to, "The largest size that makes sense, as a length that the model is made for")
      ->check(CLI::Range(std::uint64_t{2}, fit::Question().most_size));
  verb->add_option("--planner", options->planner,
                   "Makes the plans. Default: hybrid, which recomputes, too, for a card, and pages for the CPU");
  verb->add_option("--link-share", options->link_share, "Percent of the machine's links to plan with")
      ->check(CLI::Range(1.0, 100.0))
      ->capture_default_str();
  verb->add_option("--ranks", options->ranks, "Of data-parallel training, simulated: each has a machine of its own")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  verb->add_option("--interconnect", options->interconnect,
                   "Bytes a second from each rank to the next: 25GB/s. Default: the rate of the machine's link");
  verb->add_option("--learning-rate", options->learning_rate,
                   "A rate that is good for some size, as 0.1@256: says what follows for the quickest size");
  verb->add_option("--steps", options->steps,
                   "Run so many real steps at the size of --from, too, and estimate the gradient noise scale")
      ->check(CLI::Range(3, 1000000));
  verb->add_option("-o,--output", options->output,
                   "Draw samples a second over the size: FILE.svg, or FILE.html with all")
      ->check(CLI::Validator(is_picture, "FILE.svg|FILE.html"));
  verb->add_flag("--json", options->json, "One JSON object instead of a screen");
  verb->add_flag("--verbose", options->verbose, "Show what the program prints");
  verb->footer("Example:\n  tensorpager fit --machine h100-80g -- python train.py --batch {batch}");
  verb->callback([options, &program] { fit_program(*options, program); });
}

}  // namespace tensorpager::cli
