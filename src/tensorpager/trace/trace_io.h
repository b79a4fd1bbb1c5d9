// Trace files: versioned text, one record a line (docs/formats.md).
#pragma once

#include <iosfwd>
#include <string>

#include "tensorpager/trace/record.h"

namespace tensorpager::trace {

/// `path` is for messages. Throws InvalidArgument, which names file, line and field, on anything that is not a trace.
Trace read_trace(std::istream& in, const std::string& path);
Trace read_trace_file(const std::string& path);

/// The text that read_trace reads back as an equal value.
std::string write_trace(const Trace& trace);

}  // namespace tensorpager::trace
