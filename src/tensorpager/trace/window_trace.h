// The trace of one window of a stream.
#pragma once

#include <optional>

#include "tensorpager/trace/record.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::trace {

/// Ops [begin, end) of a stream.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const Span&) const = default;
};

/// Nothing where the storages alive at the end are not, by what op made them, those alive at the beginning.
///
/// A storage that is alive at the beginning and dies is continued by one that the window makes and leaves behind: a
/// gradient, the batch that a variable holds. Where the new one is born before the old one dies, a storage of the trace
/// stands for the new one until then, and the op after which the old one dies writes the old one: it takes over.
/// Of several these writes are in the order of the deaths. One whose size changes from window to window has the larger
/// size.
///
/// Storages are numbered in the order of their first use, so that windows that do the same have equal traces, but for
/// times and temporaries.
std::optional<Trace> window_trace(const Stream& stream, Span window);

/// By storage of a window's trace, the storage of the stream that it is then; StreamStorage::kNever where it is not
/// alive.
struct WindowStorages {
  std::vector<std::size_t> at_begin, at_end;
};

/// Empty where the window has no trace.
WindowStorages window_storages(const Stream& stream, Span window);

}  // namespace tensorpager::trace
