#include "tensorpager/cli/dry_program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "tensorpager/base/blocked_signals.h"
#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/cli/start_program.h"
#include "tensorpager/cli/wait_status.h"

namespace tensorpager::cli {
namespace {

namespace files = std::filesystem;

/// Nobody would see what the program asks for, so it gets no input either.
void send_output_to(const files::path& log) {
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int nothing = open("/dev/null", O_RDONLY);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0 || dup2(nothing, STDIN_FILENO) < 0)
    throw base::IoError("open", log.string(), base::Bytes(0), errno);
}

constexpr std::chrono::seconds kWholeProgram{300};  // as session::DryRun::Options::longest

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

/// Runs it to its end in a child process, whose output goes to the log; shown, if that is empty. Returns its status
/// from waitpid. The program does not outlive this thread.
int run_child(const Settings& settings, const Program& program, const files::path& log) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw base::IoError("fork", "the program", base::Bytes(0), errno);
  if (child == 0) {
    try {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(2);  // it ended before that
      if (!log.empty()) send_output_to(log);
      start_program(settings, program);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "tensorpager: %s\n", error.what());
    }
    _exit(2);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

bool has_succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

std::string last_lines(const files::path& log) { return log.empty() ? "" : "; its last lines:" + tail_of(log); }

/// Removes the directory once no process has the other end of the pipe. All signals are blocked.
[[noreturn]] void remove_at_the_end(int alive, const files::path& directory) {
  setsid();  // so that what ends the command's process group does not end this
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (file != alive) close(file);
  char nothing = 0;
  while (read(alive, &nothing, 1) < 0 && errno == EINTR) continue;
  std::error_code error;
  // A program that is about to be ended may still write there.
  for (int tries = 0; tries < 50 && (files::remove_all(directory, error), error); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  _exit(0);
}

}  // namespace

Scratch::Scratch() {
  const base::BlockedSignals blocked;  // an interrupt from the terminal is sent to the remover, too
  std::string name = (files::temp_directory_path() / "tensorpager-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw base::IoError("mkdtemp", name, base::Bytes(0), errno);
  path_ = name;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) == 0) remover_ = fork();
  if (ends[0] < 0 || remover_ < 0) {
    const int error = errno;
    close(ends[0]), close(ends[1]);
    std::error_code ignored;
    files::remove(path_, ignored);
    throw base::IoError(ends[0] < 0 ? "pipe2" : "fork", "what removes " + name, base::Bytes(0), error);
  }
  if (remover_ == 0) {
    close(ends[1]);
    remove_at_the_end(ends[0], path_);
  }
  close(ends[0]);
  alive_ = ends[1];
}

Scratch::~Scratch() {
  close(alive_);
  while (waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) continue;
  std::error_code ignored;
  files::remove_all(path_, ignored);  // unless the remover was killed it has
}

void run_dry(const DryRun& run, const Program& program, const char* what) {
  Settings settings{
      {"TENSORPAGER_BUDGET", run.budget == base::kUnlimited ? "unlimited" : std::to_string(run.budget.count())},
      {"TENSORPAGER_TRACE", run.trace.string()},
      {"TENSORPAGER_STATS", run.stats.string()},
      {"TENSORPAGER_DEVICE", run.card.empty() ? "cpu" : "cuda"}};
  if (run.dry) {
    settings["TENSORPAGER_DRY"] = "1";
  } else {
    settings["TENSORPAGER_TRACE_CLASS"] = "step";
    settings["TENSORPAGER_ON_DEMAND"] = "1";
  }
  // A dry run lists all storages, and notices by them that a step repeats; without the small ones it takes the whole
  // program. A real run lists those that are paged.
  if (run.dry)
    settings["TENSORPAGER_DRY_LONGER"] = std::to_string((run.all_storages ? run.longer : kWholeProgram).count());
  if (run.dry && !run.all_storages) {
    settings["TENSORPAGER_TRACE_SMALLEST"] = std::to_string(base::kMinPagedBytes.count());
  } else if (!run.dry && run.all_storages) {
    settings["TENSORPAGER_TRACE_SMALLEST"] = "1";
  }
  if (!run.card.empty()) settings["TENSORPAGER_EMULATE"] = run.card;
  std::error_code ignored;
  files::remove(run.trace, ignored);  // of an earlier run
  const int status = run_child(settings, program, run.log);
  if (files::exists(run.trace) && files::file_size(run.trace) > 0) return;
  throw NotPossible("no " + std::string(what) + ": the program " + how_it_ended(status) +
                    " before a step of it on the " + (run.card.empty() ? "CPU" : "CUDA device") + " had repeated" +
                    last_lines(run.log));
}

TorchMemory torch_memory_of(const DryRun& run) {
  std::ifstream in(run.stats);
  if (!in) throw base::IoError("open", run.stats.string(), base::Bytes(0), errno);
  const auto emulation = nlohmann::json::parse(in).at("emulation");
  const auto bytes = [&](const char* name) { return base::Bytes(emulation.at(name).get<std::uint64_t>()); };
  return {bytes("max_allocated_bytes"), bytes("max_reserved_bytes")};
}

std::optional<std::chrono::duration<double>> step_under_plans(base::Bytes budget, const files::path& stats,
                                                              const files::path& log, const Program& program) {
  const Settings settings{{"TENSORPAGER_BUDGET", std::to_string(budget.count())},
                          {"TENSORPAGER_PLAN_SYNC", "1"},
                          {"TENSORPAGER_STATS", stats.string()},
                          {"TENSORPAGER_QUIET", "1"}};
  std::error_code ignored;
  files::remove(stats, ignored);  // of an earlier run
  if (!has_succeeded(run_child(settings, program, log))) return std::nullopt;
  std::ifstream in(stats);
  if (!in) return std::nullopt;
  const double seconds = nlohmann::json::parse(in).value("step_seconds", 0.0);
  return seconds > 0 ? std::optional(std::chrono::duration<double>(seconds)) : std::nullopt;
}

fit::Gradients gradients_of(const RealSteps& run, const Program& program) {
  Settings settings{{"TENSORPAGER_GRADIENTS", std::to_string(run.steps) + ":" + run.gradients.string()},
                    {"TENSORPAGER_QUIET", "1"}};
  if (run.card.empty())
    settings["TENSORPAGER_BUDGET"] = "unlimited";
  else
    settings["TENSORPAGER_EMULATE"] = run.card;
  const int status = run_child(settings, program, run.log);
  constexpr std::size_t kFewest = 3;
  fit::Gradients gradients;
  if (std::ifstream in(run.gradients); in) {
    const auto json = nlohmann::json::parse(in);
    gradients = {.squares = json.at("squares"), .products = json.at("products")};
    if (!json.at("are_finite")) throw NotPossible("no gradient noise scale: some gradients are not finite");
  }
  if (gradients.squares.size() < kFewest)
    throw NotPossible("no gradient noise scale: the program " + how_it_ended(status) + " after " +
                      std::to_string(gradients.squares.size()) + " steps of torch's optimizers in Python, and " +
                      std::to_string(kFewest) + " are needed" + last_lines(run.log));
  return gradients;
}

}  // namespace tensorpager::cli
