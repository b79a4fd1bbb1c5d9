// Ops that need no frame: views, which touch no bytes, and composites, whose parts come back to us as ops of their own.
#pragma once

#include <torch/library.h>

namespace tensorpager::intercept {

/// Registers fallthroughs on our key in the library for the aten namespace; returns how many. `backend`: CPU or CUDA,
/// whose kernels say which ops are composites.
std::size_t register_fallthroughs(torch::Library& aten, c10::DispatchKey backend);

}  // namespace tensorpager::intercept
