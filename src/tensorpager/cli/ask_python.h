// Asks the Python that programs run with about itself, its torch and the GPU that it sees.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tensorpager::cli {

struct Answer {
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  int status = 0;  // from waitpid

  bool is_not_found() const;  // there is no such command
  std::string how_it_ended() const;
};

/// Runs a program without a session and merges the JSON objects that it prints, one a line; skips other lines, as other
/// code may print when Python starts. Discards its standard error, and kills it after five minutes. Processes that
/// outlive it are not waited for. Throws IoError.
Answer ask_python(const std::vector<std::string>& command);

/// `python`, or `python3` if there is none on the PATH.
std::string default_python();

}  // namespace tensorpager::cli
