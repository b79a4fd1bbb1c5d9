// The statistics in the format of docs/formats.md, for Python's stats() and for files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensorpager/session/session.h"

namespace tensorpager::session {

/// Returns one JSON object.
std::string statistics_text(const Session::Report& report);

struct StatisticsFile {
  std::string path;
  /// The process is the first of its run or its rank. A launcher without torch may have started several such processes:
  /// the one that ends first writes `path`, the others `path.PID`. `run` removed the files of an earlier run.
  bool is_of_first = false;
  std::optional<std::uint64_t> foreign_before_bytes = {};  // counted in Python
};

/// Writes the object, with the emulated card's figures if there is one. Throws IoError.
void write_statistics(const Session::Report& report, const StatisticsFile& file);

/// Writes only the emulated card's figures, for a process without a session. Throws IoError.
void write_emulation_statistics(const std::string& path);

}  // namespace tensorpager::session
