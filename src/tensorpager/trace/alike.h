// Windows that do nearly the same, and none of them twice: sentences of other lengths in each batch, a layer or a
// teacher that is left out at random.
#pragma once

#include <vector>

#include "tensorpager/trace/windows.h"

namespace tensorpager::trace {

/// Windows that are alike in what ops they have, whatever their sizes, and of which most came once only: those of each
/// such group as one class. Where most came again, in classes of `least_ops` in all, these stand for themselves and for
/// what is like them. The trace is the newest window's, with the largest sizes of those that differ from it in sizes
/// only.
std::vector<WindowClass> join_alike(const std::vector<WindowClass>& classes, std::size_t least_ops);

}  // namespace tensorpager::trace
