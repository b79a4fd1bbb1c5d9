// Ops that run inside `__torch_dispatch__` (of tensor subclasses such as DTensor, and of modes) are seen too.
#pragma once

namespace tensorpager::intercept {

/// torch hides all keys above Python's while a `__torch_dispatch__` runs, ours among them: a subclass's inner tensors
/// would be used without a frame, and a collective on them evicted under its threads. From here on ours stays visible.
/// Once in a process.
void see_ops_in_python_dispatch();

}  // namespace tensorpager::intercept
