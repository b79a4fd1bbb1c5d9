#include "tensorpager/cli/ask_python.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/options.h"

namespace tensorpager::cli {
namespace {

constexpr unsigned kPatience = 300;    // seconds; loading torch from a cold disk is slow
constexpr int kCommandNotFound = 127;  // exit code, as shells have it

void run_with_output_to(int file, const std::vector<std::string>& command) {
  dup2(file, STDOUT_FILENO);
  std::ignore = std::freopen("/dev/null", "w", stderr);
  // A card that is emulated around this is asked about, too.
  for (const base::Option& option : base::options()) {
    const std::string_view variable = option.variable;
    if (variable.starts_with("TENSORPAGER_") && !variable.starts_with("TENSORPAGER_EMULATE")) unsetenv(option.variable);
  }
  alarm(kPatience);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kCommandNotFound);
}

}  // namespace

bool Answer::is_not_found() const { return WIFEXITED(status) && WEXITSTATUS(status) == kCommandNotFound; }

std::string Answer::how_it_ended() const {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return "no answer after " + std::to_string(kPatience) + " s";
  return "ended by signal " + std::to_string(WTERMSIG(status));
}

Answer ask_python(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe(ends) != 0) throw base::IoError("pipe", "a pipe", base::Bytes(0), errno);
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(ends[0]), close(ends[1]);
    throw base::IoError("fork", command.front(), base::Bytes(0), error);
  }
  if (child == 0) {
    close(ends[0]);
    run_with_output_to(ends[1], command);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) output.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  Answer answer;
  while (waitpid(child, &answer.status, 0) < 0 && errno == EINTR) continue;
  for (std::size_t begin = 0, end; (end = output.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto line = nlohmann::ordered_json::parse(output.begin() + static_cast<std::ptrdiff_t>(begin),
                                                    output.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (line.is_object()) answer.facts.update(line);
  }
  return answer;
}

std::string default_python() { return std::system("command -v python >/dev/null 2>&1") == 0 ? "python" : "python3"; }

}  // namespace tensorpager::cli
