#include "tensorpager/emulation/waited_ops.h"

#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "tensorpager/emulation/late_call.h"
#include "tensorpager/emulation/late_kernels.h"
#include "tensorpager/emulation/tensors.h"

namespace tensorpager::emulation {
namespace {

/// Names of ops that were waited for, and the first reason for each.
class Waited {
 public:
  void add(const std::string& op, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reasons_.emplace(op, reason.substr(0, reason.find('\n')));
  }
  std::string list() {
    const std::lock_guard lock(mutex_);
    std::string lines;
    for (const auto& [op, reason] : reasons_) lines += op + "\t" + reason + "\n";
    return lines;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> reasons_;
};
Waited& waited() {
  static auto* const all = new Waited;
  return *all;
}

/// A result of the CPU as a device tensor, copied when the stream comes to it.
at::Tensor to_device(const at::Tensor& result) {
  at::Tensor tensor = empty(result.sizes(), result.strides(), result.scalar_type());
  Operands with;
  const at::Tensor to = with.write(tensor);
  launch("result of an op", with, [to, result] { to.copy_(result); });
  return tensor;
}

class NothingSkipped {
 public:
  NothingSkipped() : before_(tensorpager_fake_cuda_skip(false)) {}
  ~NothingSkipped() { tensorpager_fake_cuda_skip(before_); }
  NothingSkipped(const NothingSkipped&) = delete;
  NothingSkipped& operator=(const NothingSkipped&) = delete;

 private:
  bool before_;
};

/// The tensor that the kernel gets for an `out=` tensor: its size is not known yet, and one over device bytes cannot
/// grow.
at::Tensor grows(const at::Tensor& out) { return at::empty({0}, out.options().device(at::kCPU)); }

void copy_out(const at::Tensor& out, const at::Tensor& result) {
  if (out.sizes() != result.sizes()) out.resize_(result.sizes());
  Operands with;
  const at::Tensor to = with.write(out);
  launch("result of an op", with, [to, result] { to.copy_(result); });
}

}  // namespace

void run_and_wait(const c10::OperatorHandle& op, const OpTraits& traits, const std::string& reason,
                  const std::vector<c10::IValue>& arguments, torch::jit::Stack* stack) {
  const NothingSkipped guard;  // what it returns is needed now
  Operands with;
  const auto late = std::make_shared<torch::jit::Stack>();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    late->push_back(traits.is_out[i] ? map_tensors(arguments[i], grows) : late_argument(traits, arguments[i], i, with));
  const auto error = std::make_shared<std::exception_ptr>();
  launch(
      traits.name.c_str(), with,
      [op, late, error] {
        try {
          call_kernel(op, *late);
        } catch (...) {
          *error = std::current_exception();  // thrown to the caller below
        }
      },
      work_of(traits, arguments));
  wait_for_current_stream();
  if (*error) std::rethrow_exception(*error);
  waited().add(traits.name, reason);
  for (std::size_t i = 0; i < traits.result_is.size(); ++i) {
    if (traits.result_is[i] == OpTraits::kNone) {
      stack->push_back(map_tensors((*late)[i], to_device));
      continue;
    }
    const auto argument = static_cast<std::size_t>(traits.result_is[i]);
    if (traits.is_out[argument]) copy_out(arguments[argument].toTensor(), (*late)[i].toTensor());
    stack->push_back(arguments[argument]);
  }
}

std::string synchronous_ops() { return waited().list(); }

}  // namespace tensorpager::emulation
