// A call whose arguments and results are on a stack of IValues, for run_op. A view.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <utility>

#include "tensorpager/intercept/collectives.h"
#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/key.h"
#include "tensorpager/intercept/op_info.h"

namespace tensorpager::intercept {

/// While it lives, an op runs on this thread that may hide shortages, or one that does not.
class HiddenShortages {
 public:
  explicit HiddenShortages(bool are) : before_(std::exchange(pager::t_state.hides_shortages, are)) {}
  ~HiddenShortages() { pager::t_state.hides_shortages = before_; }
  HiddenShortages(const HiddenShortages&) = delete;
  HiddenShortages& operator=(const HiddenShortages&) = delete;

 private:
  const bool before_;
};

class BoxedCall {
 public:
  /// `described`: the arguments that an error names; if empty, those on the stack.
  BoxedCall(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet keys, torch::jit::Stack& stack,
            c10::ArrayRef<c10::IValue> described = {})
      : op_(op),
        info_(info),
        keys_(keys),
        stack_(stack),
        first_(stack.size() - info.arguments),
        described_(described) {}

  pager::WorkingRoom* room() const { return &info_.room; }
  pager::Temporaries temporaries() const {
    return goes_to_python(keys_) ? pager::Temporaries::kLetGo : info_.temporaries;
  }
  bool multiplies() const { return info_.multiplies; }
  const OpInfo& info() const { return info_; }
  bool is_factory() const { return info_.tensor_arguments.empty(); }
  c10::ArrayRef<c10::IValue> boxed_arguments() const { return torch::jit::last(stack_, info_.arguments); }

  template <typename Visit>
  void for_each_argument(Visit&& visit) const {
    for (const OpInfo::Argument& argument : info_.tensor_arguments)
      visit(stack_[first_ + argument.index], argument.access);
  }
  template <typename Visit>
  void for_each_result(c10::ArrayRef<c10::IValue> results, Visit&& visit) const {
    if (!info_.returns_tensors) return;
    for (const c10::IValue& result : results) visit(result);
  }

  c10::ArrayRef<c10::IValue> run() const {
    if (info_.collective) [[unlikely]] {
      // It may write all of them: schemas of collectives do not say what.
      if (g_target.announces_writes())
        for_each_argument([](const c10::IValue& value, pager::Access /*access*/) {
          g_target.finder().in_value(value, [](pager::Block& block) { g_target.announce_write(block); });
        });
      run_collective(op_, info_, keys_, &stack_);
    } else {
      const HiddenShortages hidden(info_.hides_shortages);
      op_.redispatchBoxed(after_key(keys_), &stack_);
    }
    release_finished_collectives();  // this op may have waited for one
    return results();
  }

  /// The arguments are still on the stack if a kernel was called unboxed, which all kernels that allocate are.
  std::string describe() const {
    const bool is_there = described_.empty() && stack_.size() >= first_ + info_.arguments;
    return describe_call(info_.name.c_str(),
                         is_there ? c10::ArrayRef(stack_.data() + first_, info_.arguments) : described_);
  }

 protected:
  c10::ArrayRef<c10::IValue> results() const { return torch::jit::last(stack_, info_.returns); }

  const c10::OperatorHandle& op_;
  const OpInfo& info_;
  c10::DispatchKeySet keys_;
  torch::jit::Stack& stack_;

 private:
  std::size_t first_;  // of the arguments, on the stack
  c10::ArrayRef<c10::IValue> described_;
};

/// The same, with its kernel called by the runner.
class HandedOnCall : public BoxedCall {
 public:
  using BoxedCall::BoxedCall;

  c10::ArrayRef<c10::IValue> run() const {
    const HiddenShortages hidden(info_.hides_shortages);
    g_target.runner.run(op_, after_key(keys_), &stack_);
    release_finished_collectives();
    return results();
  }
};

}  // namespace tensorpager::intercept
