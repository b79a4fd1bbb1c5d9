// Who calls the kernel of an op that is seen. Without a runner the interceptor does so itself.
#pragma once

#include <ATen/core/stack.h>

namespace tensorpager::pager {
struct Block;
}
namespace c10 {
class OperatorHandle;
class DispatchKeySet;
}  // namespace c10

namespace tensorpager::intercept {

/// Calls the kernel once, with the keys that are left; its results replace the arguments on the stack. All blocks of
/// the arguments are resident until it returns.
using KernelRunner = void (*)(const c10::OperatorHandle& op, c10::DispatchKeySet after, torch::jit::Stack* stack);

/// Called before something writes the block that no runner is called for: a collective, or a compiled kernel.
using BeforeWrite = void (*)(pager::Block& block);

}  // namespace tensorpager::intercept
