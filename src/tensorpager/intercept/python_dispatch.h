// Ops that a tensor subclass or a mode calls in Python's `__torch_dispatch__`. torch excludes every key above Python's
// own meanwhile, ours too, so they would have no frame: our key is included again for the call.
// Note [Python's dispatch hides the key]
#pragma once

namespace tensorpager::intercept {

/// Call it once in a process; does nothing if torch runs without Python.
void see_python_dispatch();

}  // namespace tensorpager::intercept
