// The windows of a stream, in classes: those of one class do the same with storages of the same sizes, so one plan
// serves them all.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tensorpager/trace/boundaries.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::trace {

struct WindowClass {
  Trace trace;                     // of the last one; times are medians, temporaries the largest
  std::vector<Span> windows = {};  // in order

  std::size_t ops() const { return windows.size() * trace.ops.size(); }
};

/// Those that make up most of the stream come first.
std::vector<WindowClass> classify_windows(const Stream& stream);

/// The class of the program's training steps: of those in which an optimizer steps, or else in which the autograd
/// engine runs, the one that makes up most of the stream, and first one that comes twice; of the same, the one with the
/// largest storages, or the last. Returns nullopt if there is none. A loader's loop may be most of the ops.
std::optional<std::size_t> find_step(const std::vector<WindowClass>& classes, const Stream& stream);

}  // namespace tensorpager::trace
