// `tensorpager estimate`: what a program needs on a card that this machine does not have. It runs the program dry,
// reads what torch's own allocator did, and simulates what less memory would cost.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/emulate.h"
#include "tensorpager/cli/estimate_screen.h"
#include "tensorpager/cli/start_program.h"
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

/// A temporary directory, removed at the end of its scope.
class Scratch {
 public:
  Scratch() {
    std::string name = (files::temp_directory_path() / "tensorpager-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw base::IoError("mkdtemp", name, base::Bytes(0), errno);
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    files::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  files::path operator/(const char* name) const { return path_ / name; }

 private:
  files::path path_;
};

void send_output_to(const files::path& log) {
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0)
    throw base::IoError("open", log.string(), base::Bytes(0), errno);
}

/// The last lines of a program's output.
std::string tail_of(const files::path& log) {
  constexpr std::size_t kLines = 6;
  std::ifstream in(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string text;
  for (std::size_t i = lines.size() > kLines ? lines.size() - kLines : 0; i < lines.size(); ++i)
    text += "\n  " + lines[i];
  return text;
}

/// Runs the program dry. Throws NotPossible with its last lines if it wrote no trace.
void run_dry(const EstimateOptions& options, const Program& program, const files::path& trace, const files::path& stats,
             const files::path& log) {
  const Settings settings{{"TENSORPAGER_BUDGET", "unlimited"},   {"TENSORPAGER_EMULATE", options.card},
                          {"TENSORPAGER_TRACE", trace.string()}, {"TENSORPAGER_STATS", stats.string()},
                          {"TENSORPAGER_DEVICE", "cuda"},        {"TENSORPAGER_DRY", "1"}};
  const pid_t child = fork();
  if (child < 0) throw base::IoError("fork", "the program", base::Bytes(0), errno);
  if (child == 0) {
    try {
      if (!options.verbose) send_output_to(log);
      start_program(settings, program);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "tensorpager: %s\n", error.what());
    }
    _exit(2);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (files::exists(trace) && files::file_size(trace) > 0) return;
  const std::string how = WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                                              : "ended with exit code " + std::to_string(WEXITSTATUS(status));
  throw NotPossible("no estimate: the program " + how + " before a step of it on the CUDA device had repeated" +
                    (options.verbose ? "" : "; its last lines:" + tail_of(log)));
}

std::string read_file(const files::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

fit::Estimate look_at(const EstimateOptions& options, const files::path& trace, const files::path& stats) {
  const machine::Machine machine = machine::find_machine(machine_of_card(options.card));
  const auto emulation = nlohmann::json::parse(read_file(stats)).at("emulation");
  const auto bytes = [&](const char* name) { return base::Bytes(emulation.at(name).get<std::uint64_t>()); };
  std::optional<base::Bytes> asked;
  if (!options.budget.empty()) asked = base::parse_size(options.budget, machine.card->memory);
  return fit::estimate(trace::read_trace_file(trace.string()), machine, bytes("max_allocated_bytes"),
                       bytes("max_reserved_bytes"), asked);
}

void estimate(const EstimateOptions& options, const Program& program) {
  if (program.empty())
    throw base::InvalidArgument(
        "no program: write it after --, as in `tensorpager estimate --machine h100-80g -- python train.py`");
  if (!machine::find_machine(machine_of_card(options.card)).card)
    throw base::InvalidArgument(options.card + ": has no record `card`, so it cannot be emulated");
  const Scratch scratch;
  const files::path trace = options.trace.empty() ? scratch / "step.trace" : files::absolute(options.trace);
  if (!options.trace.empty()) base::write_whole_file(trace.string(), "");
  run_dry(options, program, trace, scratch / "stats.json", scratch / "log");
  const fit::Estimate found = look_at(options, trace, scratch / "stats.json");
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
