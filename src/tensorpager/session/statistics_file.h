// The statistics as docs/formats.md has them, for Python's stats() and for files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensorpager/session/session.h"

namespace tensorpager::session {

/// One JSON object.
std::string statistics_text(const Session::Report& report);

struct StatisticsFile {
  std::string path;
  /// The process speaks for its run or its rank. A launcher without torch may have started several such processes: the
  /// one that ends first writes `path`, the others `path.PID`. `run` removed what an earlier run had left.
  bool is_of_first = false;
  std::optional<std::uint64_t> foreign_before_bytes = {};  // Python's
};

/// Writes the object, with what the emulated card did if there is one. Throws IoError.
void write_statistics(const Session::Report& report, const StatisticsFile& file);

/// What the emulated card did, alone: of a process without a session. Throws IoError.
void write_emulation_statistics(const std::string& path);

}  // namespace tensorpager::session
