#include "tensorpager/emulation/late_ops.h"

#include <c10/core/DeviceGuard.h>

#include <memory>
#include <utility>

#include "tensorpager/emulation/blas_workspace.h"
#include "tensorpager/emulation/late_call.h"
#include "tensorpager/emulation/late_kernels.h"
#include "tensorpager/emulation/op_traits.h"
#include "tensorpager/emulation/shapes.h"
#include "tensorpager/emulation/statistics.h"
#include "tensorpager/emulation/tensors.h"
#include "tensorpager/emulation/torch_internals.h"
#include "tensorpager/emulation/waited_ops.h"

namespace tensorpager::emulation {
namespace {

using torch::jit::Stack;

/// While torch's generic kernel of an op runs on this thread, the op's `out=` form is given outputs of the right shape.
class OutputsAreRight {
 public:
  explicit OutputsAreRight(const OpTraits& traits) : before_(std::exchange(of_, &traits)) {}
  ~OutputsAreRight() { of_ = before_; }
  OutputsAreRight(const OutputsAreRight&) = delete;
  OutputsAreRight& operator=(const OutputsAreRight&) = delete;

  /// Whether the outputs are for this op; not for others that the generic kernel calls.
  static bool are_for(const OpTraits& traits) { return of_ && traits.takes_out && of_->family == traits.family; }

 private:
  static thread_local const OpTraits* of_;
  const OpTraits* before_;
};
thread_local const OpTraits* OutputsAreRight::of_ = nullptr;

c10::IValue new_result(const ResultShape& shape) {
  const auto tensor_of = [](const Shape& one) {
    return one.defined ? empty(one.sizes, one.strides, one.type) : at::Tensor();
  };
  if (shape.kind == ResultShape::Kind::kTensor) return tensor_of(shape.tensors.front());
  c10::List<at::Tensor> list;
  for (const Shape& one : shape.tensors) list.push_back(tensor_of(one));
  return list;
}

void put(const at::Tensor& to, const at::Tensor& result) {
  if (!to.defined() || !result.defined()) return;
  const bool same_kind =
      to.scalar_type() == result.scalar_type() || (to.is_floating_point() && result.is_floating_point());
  TORCH_CHECK(to.sizes() == result.sizes() && same_kind, "emulated CUDA: torch's shape function says ", to.sizes(), " ",
              to.scalar_type(), ", the CPU's kernel made ", result.sizes(), " ", result.scalar_type(),
              "; name the op in has_wrong_shapes of torch_internals.cpp");
  to.copy_(result);
}

void put(const c10::IValue& to, const c10::IValue& result) {
  if (to.isTensor()) return put(to.toTensor(), result.toTensor());
  const auto tensors = to.toTensorVector(), results = result.toTensorVector();
  for (std::size_t i = 0; i < tensors.size(); ++i) put(tensors[i], results.at(i));
}

/// Resizes, as torch does for `out=` tensors of the wrong size.
void resize_outputs(const OpTraits& traits, const Shapes& shapes, const std::vector<c10::IValue>& arguments) {
  for (std::size_t i = 0; i < traits.result_is.size(); ++i) {
    if (traits.result_is[i] == OpTraits::kNone || shapes.results[i].tensors.empty()) continue;
    const at::Tensor& out = arguments[static_cast<std::size_t>(traits.result_is[i])].toTensor();
    const Shape& shape = shapes.results[i].tensors.front();
    if (out.sizes() != at::IntArrayRef(shape.sizes)) out.resize_(shape.sizes);
  }
}

void queue(const c10::OperatorHandle& op, const OpTraits& traits, const Shapes* shapes,
           const std::vector<c10::IValue>& arguments, Stack* stack) {
  std::vector<c10::IValue> results(traits.result_is.size()), into(traits.result_is.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (traits.result_is[i] == OpTraits::kNone) results[i] = new_result(shapes->results[i]);
  }
  const BlasWorkspace workspace(traits.uses_cublas, traits.may_add_bias && arguments.front().toTensor().dim() == 1);
  Operands with;
  const auto late = std::make_shared<Stack>();
  late->reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) late->push_back(late_argument(traits, arguments[i], i, with));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (traits.result_is[i] == OpTraits::kNone)
      into[i] = map_tensors(results[i], [&](const at::Tensor& tensor) { return with.write(tensor); });
    else
      results[i] = arguments[static_cast<std::size_t>(traits.result_is[i])];
  }
  launch(
      traits.name.c_str(), with,
      [op, late, into, &traits] {
        cast_statistics(traits.name, *late);
        call_kernel(op, *late);
        for (std::size_t i = 0; i < into.size(); ++i) {
          if (traits.result_is[i] == OpTraits::kNone) put(into[i], (*late)[i]);
        }
      },
      work_of(traits, arguments));
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

void run_for_any_backend(const c10::OperatorHandle& op, Stack* stack) {
  const BackendOnly plain;
  op.redispatchBoxed(c10::DispatchKeySet(kAnyBackend), stack);
}

}  // namespace

void run_late(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const OpTraits& traits = traits_of(op);
  const bool outputs_are_right = OutputsAreRight::are_for(traits);
  const std::size_t count = op.schema().arguments().size();
  const Place place = place_of(op, traits, c10::ArrayRef(*stack).slice(stack->size() - count));
  const c10::OptionalDeviceGuard on_device(place.device);
  if (traits.course == Course::kGeneric) {
    const OutputsAreRight generic(traits);
    return run_for_any_backend(op, stack);
  }
  if (traits.takes_lists && !place.is_one)
    return run_for_any_backend(op, stack);  // tensor by tensor, each on its device
  std::vector<c10::IValue> arguments(std::make_move_iterator(stack->end() - static_cast<std::ptrdiff_t>(count)),
                                     std::make_move_iterator(stack->end()));
  torch::jit::drop(*stack, count);
  if (traits.course == Course::kWhenItRan && !outputs_are_right)
    return run_and_wait(op, traits, traits.reason, arguments, stack);
  std::shared_ptr<const Shapes> shapes;
  if (traits.returns_new || (!outputs_are_right && (traits.takes_out || traits.is_checked))) {
    shapes = shapes_of(op, traits, arguments);
    const bool is_only_checked = !traits.returns_new && !traits.takes_out;
    if (!shapes->failure.empty() && !(is_only_checked && shapes->is_missing))
      return run_and_wait(op, traits, shapes->failure, arguments, stack);
    if (traits.takes_out && !outputs_are_right) resize_outputs(traits, *shapes, arguments);
  }
  queue(op, traits, shapes.get(), arguments, stack);
}

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "emulated CUDA has no ", toString(op.operator_name()),
                              "; the CPU has no kernel for it that could take its place. Run without --emulate on a "
                              "machine with a GPU, or avoid the op");
}

}  // namespace tensorpager::emulation
