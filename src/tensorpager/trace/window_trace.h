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

/// Returns nullopt if the storages alive at the end do not match those alive at the beginning; they are compared by the
/// ops that made them.
///
/// A storage that is alive at the beginning and dies is continued by one that the window makes and leaves alive: a
/// gradient, the batch that a variable holds. If the new one is born before the old one dies, a separate storage of the
/// trace stands for the new one until then, and the op after which the old one dies is recorded as writing the old one,
/// which takes over. Several such writes are in the order of the deaths. If a size changes from window to window, the
/// larger one counts.
///
/// Storages are numbered in the order of their first use, so that windows that do the same have equal traces, except
/// for times and temporaries.
std::optional<Trace> window_trace(const Stream& stream, Span window);

/// By storage of a window's trace: the storage of the stream that it is at the begin and at the end;
/// StreamStorage::kNever if it is not alive then.
struct WindowStorages {
  std::vector<std::size_t> at_begin, at_end;
};

/// Returns empty lists if the window has no trace.
WindowStorages window_storages(const Stream& stream, Span window);

}  // namespace tensorpager::trace
