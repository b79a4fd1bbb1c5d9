// Joins windows that are similar but not equal: batches with sentences of other lengths, a layer or a teacher model
// that is left out at random.
#pragma once

#include <vector>

#include "tensorpager/trace/windows.h"

namespace tensorpager::trace {

/// Groups windows that have similar ops, whatever their sizes. If most windows of a group occurred only once, the group
/// becomes one class. If most recurred, in classes of at least `least_ops` ops in total, these classes stay and stand
/// for the similar ones. The trace is that of the newest window, with the largest sizes of the windows that differ from
/// it in sizes only.
std::vector<WindowClass> join_alike(const std::vector<WindowClass>& classes, std::size_t least_ops);

}  // namespace tensorpager::trace
