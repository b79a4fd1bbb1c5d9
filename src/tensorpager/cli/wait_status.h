// How a child process ended, in words.
#pragma once

#include <sys/wait.h>

#include <string>

namespace tensorpager::cli {

/// `status` is from waitpid. The text goes on after the name of the program.
inline std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                             : "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace tensorpager::cli
