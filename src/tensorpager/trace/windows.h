// Classifies the windows of a stream: windows of one class have the same ops with storages of the same sizes, so one
// plan serves them all.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tensorpager/trace/boundaries.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::trace {

struct WindowClass {
  Trace trace;                     // of the last window; times are medians, temporaries and slabs the maximum
  std::vector<Span> windows = {};  // in order

  std::size_t ops() const { return windows.size() * trace.ops.size(); }
};

/// Returns the classes, by their share of the stream, the largest first.
std::vector<WindowClass> classify_windows(const Stream& stream);

/// Returns the class of the program's training steps, or nullopt if there is none. Classes in which an optimizer steps
/// rank first, then those in which the autograd engine runs; then those that recur, those with the most ops of the
/// stream, those with the largest storages, and the last. A data loader's loop may be most of the ops.
std::optional<std::size_t> find_step(const std::vector<WindowClass>& classes, const Stream& stream);

}  // namespace tensorpager::trace
