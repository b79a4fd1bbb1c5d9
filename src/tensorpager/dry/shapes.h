// Sizes and strides of results without running a kernel: by torch's meta kernels, or by our own table if torch has
// none. In a Python program Python's meta kernels are registered, in a C++ program only those in C++.
#pragma once

#include "tensorpager/dry/outcome.h"

namespace tensorpager::dry {

/// Describes what `call` would give. Returns false if that is not known: no shape function, sizes that depend on
/// values.
bool describe_by_shapes(const Call& call, Outcome& outcome);

/// How often a shape function was asked.
std::uint64_t shapes_asked();

}  // namespace tensorpager::dry
