// Writes what a session recorded as a trace file, and describes it in a line of text.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "tensorpager/trace/stream.h"

namespace tensorpager::session {

using BlockNames = std::unordered_map<std::uint64_t, std::string>;

/// Finds the classes of windows, writes the trace of one of them to `path` (1: the class that makes up most of the
/// recorded ops; 0: that of training steps), and returns a line that lists the classes. Writes nothing if there is no
/// such class. Throws IoError. `names`: names of blocks, by their numbers in the session, for the storages that are
/// alive between steps.
std::string write_trace_file(const trace::Stream& stream, const std::string& path, std::uint64_t number,
                             const BlockNames& names = {});

}  // namespace tensorpager::session
