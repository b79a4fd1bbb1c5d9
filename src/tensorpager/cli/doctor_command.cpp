// `tensorpager doctor`: what works on this machine and what does not. It checks the machine, then runs the Python that
// programs would run with, which pages a few tensors for real.
#include <sys/utsname.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generated/install_layout.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/cli/ask_python.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/machine_checks.h"
#include "tensorpager/cli/print_json.h"
#include "tensorpager/cli/python_package.h"

namespace tensorpager::cli {
namespace {

using Json = nlohmann::ordered_json;  // of Answer

struct DoctorOptions {
  std::string python, spill;
  bool json = false;
};

/// Makes a finding of a text "what is wrong; what to try".
Finding not_possible(const std::string& name, const std::string& text) {
  const std::size_t split = text.rfind("; ");
  return {.name = name,
          .verdict = Verdict::kNotPossible,
          .found = text.substr(0, split),
          .advice = split == std::string::npos ? "" : text.substr(split + 2)};
}

std::string bytes_of(const Json& facts, const char* name) {
  return base::format_bytes(base::Bytes(facts[name].get<std::uint64_t>()));
}

std::string trial_of(const Json& facts) {
  return bytes_of(facts, "trial_bytes") + " of tensors paged through a budget of " + bytes_of(facts, "trial_budget") +
         ", all bytes equal";
}

/// Returns up to three findings: Python, its torch, and the trial. Stops after one that is not possible.
std::vector<Finding> check_python(const std::string& python, const Answer& answer) {
  const Json& facts = answer.facts;
  constexpr const char* kOther = "activate the program's virtual environment, or name its Python with --python";
  std::vector<Finding> findings;
  if (!facts.contains("python")) {
    return {not_possible(
        "python", python + (answer.is_not_found() ? ": not found; " : ": " + answer.how_it_ended() + "; ") + kOther)};
  }
  const auto executable = facts["executable"].get<std::string>();
  findings.push_back({.name = "python", .found = facts["python"].get<std::string>() + ", " + executable});
  if (!facts.contains("torch")) {
    const std::string why = facts.value("no_torch", answer.how_it_ended());
    findings.push_back(not_possible("torch", "none for " + executable + " (" + why + "); " + kOther));
    return findings;
  }
  if (facts.contains("misfit")) {
    findings.push_back(not_possible("torch", facts["misfit"].get<std::string>()));
    return findings;
  }
  findings.push_back({.name = "torch", .found = facts["torch"].get<std::string>()});
  if (!facts.contains("trial_bytes")) {
    const std::string why = facts.value("failure", answer.how_it_ended());
    findings.push_back({.name = "trial",
                        .verdict = Verdict::kNotPossible,
                        .found = why,
                        .advice = "fix the problems above first; if there are none, please report this"});
    return findings;
  }
  findings.push_back({.name = "trial", .found = trial_of(facts)});
  return findings;
}

/// The first GPU that torch can use, and a trial on it. Programs on the CPU run without.
Finding check_gpu(const Answer& answer) {
  const Json& facts = answer.facts;
  Finding finding{.name = "gpu"};
  if (facts.contains("gpu"))
    finding.found = facts["gpu"].get<std::string>() + ", compute capability " + facts["compute"].get<std::string>() +
                    ", " + bytes_of(facts, "gpu_bytes") + ", CUDA " + facts["cuda"].get<std::string>() + ": ";
  if (facts.contains("trial_bytes")) {
    finding.found += trial_of(facts);
    return finding;
  }
  finding.verdict = Verdict::kWarning;
  finding.found += facts.value("misfit", facts.value("failure", answer.how_it_ended()));
  finding.advice = "programs on the CPU; if the driver is new enough for torch's CUDA, please report this";
  return finding;
}

std::vector<Finding> examine(const DoctorOptions& options) {
  const std::string spill = !options.spill.empty() ? options.spill : base::read_config(&std::getenv).spill;
  const std::string where = !spill.empty() ? spill : base::default_spill_directory(&std::getenv);
  const std::string python = options.python.empty() ? default_python() : options.python;
  const Finding spill_finding = check_spill(where);
  const std::string usable = spill_finding.verdict == Verdict::kNotPossible ? "ram" : where;
  const auto ask_on = [&](const char* device) {
    return ask_python({python, (python_package() / "_doctor.py").string(), usable, device});
  };
  const Answer answer = ask_on("cpu");
  const Json& facts = answer.facts;

  utsname system{};
  uname(&system);
  std::vector<Finding> findings = {
      {.name = "tensorpager",
       .found = TENSORPAGER_VERSION " for torch " TENSORPAGER_TORCH " and Python " TENSORPAGER_PYTHON},
      check_kernel(system.release, system.machine),
      check_memory(""),
      check_addresses(),
      check_data_limit(),
      check_mappings("", facts.value("mappings", std::uint64_t{0})),
      check_huge_pages(""),
      check_locked_memory(),
      spill_finding,
      check_gpus("", facts.value("gpus", std::uint64_t{0}))};
  for (Finding& finding : check_python(python, answer)) findings.push_back(std::move(finding));
  if (facts.value("gpus", 0) > 0 && facts.contains("trial_bytes")) findings.push_back(check_gpu(ask_on("cuda")));
  return findings;
}

void print_object(const std::vector<Finding>& findings, bool works) {
  Json checks = Json::array();
  for (const Finding& one : findings)
    checks.push_back(
        {{"name", one.name}, {"verdict", to_string(one.verdict)}, {"found", one.found}, {"advice", one.advice}});
  print_json(Json{{"works", works}, {"checks", checks}});
}

void print_lines(const std::vector<Finding>& findings, bool works) {
  for (const Finding& one : findings)
    std::printf("%-13s %-12s %s%s%s\n", to_string(one.verdict), one.name.c_str(), one.found.c_str(),
                one.advice.empty() ? "" : "; try: ", one.advice.c_str());
  std::printf("`tensorpager run` %s here\n", works ? "works" : "does not work");
}

void doctor(const DoctorOptions& options) {
  const std::vector<Finding> findings = examine(options);
  bool works = true;
  for (const Finding& one : findings) works = works && one.verdict != Verdict::kNotPossible;
  options.json ? print_object(findings, works) : print_lines(findings, works);
  if (!works) throw CLI::RuntimeError(1);
}

}  // namespace

void add_doctor_command(CLI::App& app, const Program& program) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* verb = app.add_subcommand("doctor", "Say what works on this machine and what does not, and what to try.");
  verb->add_option("--python", options->python, "The Python that programs run with (default: python on the PATH)");
  verb->add_option("--spill", options->spill, "The spill directory to look at, as for run [TENSORPAGER_SPILL]");
  verb->add_flag("--json", options->json, "As one JSON object");
  verb->footer("Exit code 0 if `run` works here, 1 if not.\nExample:\n  tensorpager doctor --spill /scratch");
  verb->callback([options, &program] {
    if (!program.empty()) throw base::InvalidArgument("doctor starts no program; name its Python with --python");
    doctor(*options);
  });
}

}  // namespace tensorpager::cli
