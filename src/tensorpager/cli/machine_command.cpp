// `tensorpager machine`: lists the machines that plans can be made for, or measures this one.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/ask_python.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/machine_measure.h"
#include "tensorpager/cli/python_package.h"
#include "tensorpager/cli/verb_options.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {
namespace {

struct MachineOptions {
  std::string name, output, spill, device = "cpu", python;
  std::vector<std::string> scale;  // two traces: of another machine, and of this one
  bool measure = false;
};

void print_names() {
  for (const std::string& name : machine::machine_names()) {
    const machine::Machine machine = machine::named_machine(name);
    std::printf("%-12s %s; page-outs %.1f GB/s, page-ins %.1f GB/s\n", name.c_str(),
                base::format_bytes(machine.memory).c_str(), machine.out.fastest() / 1e9, machine.in.fastest() / 1e9);
  }
}

machine::Machine measure_card(const MachineOptions& options) {
  const std::string python = options.python.empty() ? default_python() : options.python;
  const Answer answer = ask_python({python, (python_package() / "_measure_card.py").string()});
  if (!answer.facts.contains("machine"))
    throw NotPossible("the GPU cannot be measured: " + python + ": " +
                      answer.facts.value("failure", answer.how_it_ended()) + "; try `tensorpager doctor`");
  std::istringstream text(answer.facts["machine"].get<std::string>());
  return machine::read_machine(text, "the machine that " + python + " measured");
}

machine::Machine measure(const MachineOptions& options) {
  if (options.device == "cuda") return measure_card(options);
  const std::string spill = options.spill.empty() ? base::read_config(&std::getenv).spill : options.spill;
  double time_scale = 1;
  if (!options.scale.empty()) {
    const trace::Trace there = trace::read_trace_file(options.scale[0]);
    time_scale = machine::time_scale_between(there, trace::read_trace_file(options.scale[1]));
  }
  Measured measured = measure_machine(spill.empty() ? base::default_spill_directory(&std::getenv) : spill);
  std::fprintf(
      stderr,
      "tensorpager: %s: out %.2f GB/s, latency %.0f us; in %.2f GB/s, latency %.0f us; copies in memory %.2f GB/s\n",
      measured.tier.c_str(), measured.machine.out.fastest() / 1e9,
      static_cast<double>(measured.machine.out.latency.count()) / 1e3, measured.machine.in.fastest() / 1e9,
      static_cast<double>(measured.machine.in.latency.count()) / 1e3, measured.copy_rate / 1e9);
  measured.machine.time_scale = time_scale;
  return measured.machine;
}

void show(const MachineOptions& options) {
  if (options.measure && !options.name.empty())
    throw base::InvalidArgument("write --measure or the name of a machine, not both");
  if (!options.measure && !options.scale.empty())
    throw base::InvalidArgument("--scale is for a machine that is measured: write --measure");
  if (!options.measure && options.device != "cpu")
    throw base::InvalidArgument("--device is of what is measured: write --measure");
  if (options.device == "cuda" && !options.scale.empty())
    throw base::InvalidArgument("--scale is for op times of the CPU; those of a GPU are measured");
  if (!options.measure && options.name.empty()) {
    if (!options.output.empty())
      throw base::InvalidArgument("nothing to write to " + options.output +
                                  ": write --measure or the name of a machine");
    print_names();
    return;
  }
  const std::string text =
      machine::write_machine(options.measure ? measure(options) : machine::find_machine(options.name));
  if (options.output.empty())
    std::printf("%s", text.c_str());
  else
    base::write_whole_file(options.output, text);
}

}  // namespace

void add_machine_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<MachineOptions>();
  CLI::App* verb = app.add_subcommand("machine", "List the machines that plans are made for, or measure this one");
  verb->add_option("name", options->name, "A machine of the list, or a machine file: print it as a machine file");
  verb->add_flag("--measure", options->measure, "Time this machine's page-outs and page-ins, for a few seconds");
  verb->add_option("--device", options->device,
                   "What to measure: cpu, or cuda, the first GPU, its links and the rates that torch's ops reach on it")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--python", options->python,
                   "The Python whose torch measures the GPU (default: python on the PATH)");
  add_option(*verb, base::option_of("TENSORPAGER_SPILL"), options->spill);
  verb->add_option("--scale", options->scale,
                   "Two traces of one window, recorded on another machine and on this one: plans made for this machine "
                   "from traces of the other take its op times times what this one takes of them")
      ->expected(2)
      ->type_name("THERE HERE");
  verb->add_option("-o,--output", options->output, "Write the machine file there");
  verb->footer("Example:\n  tensorpager machine --measure -o here.machine");
  verb->callback([options] { show(*options); });
}

}  // namespace tensorpager::cli
