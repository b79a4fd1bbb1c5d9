#include "tensorpager/cli/ask_python.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/options.h"
#include "tensorpager/cli/wait_status.h"

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

/// What is in the file now.
std::string contents_of(int file) {
  struct stat status {};
  fstat(file, &status);
  std::string contents(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t count = pread(file, contents.data(), contents.size(), 0);
  contents.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return contents;
}

}  // namespace

bool Answer::is_not_found() const { return WIFEXITED(status) && WEXITSTATUS(status) == kCommandNotFound; }

std::string Answer::how_it_ended() const {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return "no answer after " + std::to_string(kPatience) + " s";
  return cli::how_it_ended(status);
}

Answer ask_python(const std::vector<std::string>& command) {
  // No pipe: a process that was started with the interpreter and outlives it would keep that open.
  const int file = memfd_create("tensorpager answer", MFD_CLOEXEC);
  if (file < 0) throw base::IoError("memfd_create", "a file in memory", base::Bytes(0), errno);
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(file);
    throw base::IoError("fork", command.front(), base::Bytes(0), error);
  }
  if (child == 0) run_with_output_to(file, command);
  Answer answer;
  while (waitpid(child, &answer.status, 0) < 0 && errno == EINTR) continue;
  const std::string output = contents_of(file);
  close(file);
  for (std::size_t begin = 0, end; (end = output.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto line = nlohmann::ordered_json::parse(output.begin() + static_cast<std::ptrdiff_t>(begin),
                                                    output.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (line.is_object()) answer.facts.update(line);
  }
  return answer;
}

std::string default_python() { return std::system("command -v python >/dev/null 2>&1") == 0 ? "python" : "python3"; }

}  // namespace tensorpager::cli
