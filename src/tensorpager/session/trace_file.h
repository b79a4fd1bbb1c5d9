// What was recorded in a session, as a trace file and a line for people.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "tensorpager/trace/stream.h"

namespace tensorpager::session {

using BlockNames = std::unordered_map<std::uint64_t, std::string>;

/// Finds the classes of windows, writes the trace of one of them (1: the one that makes up most of what was recorded;
/// 0: that of training steps) to `path`, and returns what it found, in one line. Writes nothing where there is no such
/// class. Throws IoError. `names`: of blocks, by their numbers in the session, for the storages that are alive between
/// steps.
std::string write_trace_file(const trace::Stream& stream, const std::string& path, std::uint64_t number,
                             const BlockNames& names = {});

}  // namespace tensorpager::session
