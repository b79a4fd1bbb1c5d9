// A leaf is a call after which come only torch's generated autograd kernels and then a kernel of the device: below
// autograd it is a function of its arguments, and what that function allocates and calls is inside it. A call that a
// kernel of autocast, Python, functorch or a library handles first is none; the calls that this kernel makes are the
// leaves.
#pragma once

#include <c10/core/DispatchKeySet.h>

#include "tensorpager/replay/op_rules.h"

namespace tensorpager::replay {

/// `after`: the keys that are left after those of the interceptor.
bool is_leaf(const OpRule& rule, c10::DispatchKeySet after, base::Device device);

}  // namespace tensorpager::replay
