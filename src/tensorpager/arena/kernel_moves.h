// What the kernel does with a move (`mremap`) of more than one mapping. Before Linux 6.17 it refuses; since then it
// moves one after the other, in the order of their addresses, and if it fails half way those that went stay where they
// are.
#pragma once

#include <cstddef>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

/// Tries it with two pages. Returns true only if `moved_before_failure` works too.
bool kernel_moves_across_mappings();

/// Returns how much at the begin of populated memory has left it, when a move of it failed; 0 if the kernel does not
/// tell.
base::Bytes moved_before_failure(const std::byte* from, base::Bytes size);

}  // namespace tensorpager::arena
