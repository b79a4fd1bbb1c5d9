// Who calls the kernels of ops that are seen. Without a runner the interceptor does so itself.
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

struct KernelRunner {
  /// Calls the kernel once, with the keys that are left; its results replace the arguments on the stack. All blocks of
  /// the arguments are resident until it returns.
  void (*run)(const c10::OperatorHandle& op, c10::DispatchKeySet after, torch::jit::Stack* stack) = nullptr;

  /// Whether it gets the call that this thread makes of the op. If not, the interceptor calls the kernel, if it need
  /// not box the arguments for that. Null: it gets all calls.
  bool (*wants)(const c10::OperatorHandle& op) = nullptr;

  /// Called before something else than `run` writes a versioned block. Null if nobody asks; not null if `wants` is not.
  void (*before_write)(pager::Block& block) = nullptr;
};

}  // namespace tensorpager::intercept
