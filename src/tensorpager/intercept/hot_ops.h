// Unboxed kernels for the ops that tiny-op programs are made of: boxing is most of what a frame costs.
#pragma once

#include <torch/library.h>

namespace tensorpager::intercept {

/// Registers them on our key in the library for the aten namespace.
void register_hot_ops(torch::Library& aten);

}  // namespace tensorpager::intercept
