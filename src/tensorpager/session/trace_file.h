// What was recorded in a session, as a trace file and a line for people.
#pragma once

#include <cstdint>
#include <string>

#include "tensorpager/trace/stream.h"

namespace tensorpager::session {

/// Finds the classes of windows, writes the trace of one of them (1: the one that makes up most of what was recorded)
/// to `path`, and returns what it found, in one line. Writes nothing where there is no such class. Throws IoError.
std::string write_trace_file(const trace::Stream& stream, const std::string& path, std::uint64_t number);

}  // namespace tensorpager::session
