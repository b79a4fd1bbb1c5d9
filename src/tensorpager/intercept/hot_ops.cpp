#include "tensorpager/intercept/hot_ops.h"

#include <tuple>
#include <type_traits>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/interceptor.h"
#include "tensorpager/intercept/key.h"
#include "tensorpager/intercept/op_info.h"
#include "tensorpager/intercept/op_protocol.h"

namespace tensorpager::intercept {
namespace {

using pager::Access;

/// Calls `visit(tensor, access)` for each tensor. One that the schema writes is a reference to non-const; one that it
/// reads is not.
template <typename Declared, typename Visit>
void visit_argument(const std::remove_reference_t<Declared>& argument, Visit&& visit) {
  using Value = std::remove_cv_t<std::remove_reference_t<Declared>>;
  constexpr bool kWritten = std::is_lvalue_reference_v<Declared> && !std::is_const_v<std::remove_reference_t<Declared>>;
  constexpr Access access = kWritten ? Access::kWrite : Access::kRead;
  if constexpr (std::is_same_v<Value, at::Tensor>) {
    visit(argument, access);
  } else if constexpr (std::is_same_v<Value, std::optional<at::Tensor>>) {
    if (argument.has_value()) visit(*argument, access);
  } else if constexpr (std::is_same_v<Value, at::TensorList>) {
    for (const at::Tensor& tensor : argument) visit(tensor, access);
  } else if constexpr (std::is_same_v<Value, at::ITensorListRef>) {
    for (const at::Tensor& tensor : argument) visit(tensor, access);
  }
}

template <typename Result, typename Visit>
void visit_results(const Result& result, Visit&& visit) {
  if constexpr (std::is_same_v<Result, at::Tensor>) {
    visit(result);
  } else if constexpr (requires { std::tuple_size<Result>::value; }) {
    std::apply([&](const auto&... parts) { (visit_results(parts, visit), ...); }, result);
  }
}

template <typename Argument, typename Value = std::remove_cvref_t<Argument>>
constexpr bool kMayHoldTensor = std::is_same_v<Value, at::Tensor> || std::is_same_v<Value, std::optional<at::Tensor>> ||
                                std::is_same_v<Value, at::TensorList> || std::is_same_v<Value, at::ITensorListRef>;

void run_handed_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  g_target.runner.run(op, after_key(keys), stack);
}

template <typename Op, typename Signature>
struct Kernel;

/// A kernel of the op, and a call of it for run_op.
template <typename Op, typename Result, typename... Arguments>
struct Kernel<Op, Result(Arguments...)> {
  inline static pager::WorkingRoom working_room;

  c10::DispatchKeySet keys;
  std::tuple<std::remove_reference_t<Arguments>&...> arguments;

  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    if (g_target.calls < Calls::kSeen) [[unlikely]]
      return call_otherwise(keys, std::forward<Arguments>(arguments)...);
    return run_op(Kernel{keys, {arguments...}});
  }
  /// Calls pass through, or are boxed for the runner.
  [[gnu::noinline, gnu::cold]] static Result call_otherwise(c10::DispatchKeySet keys, Arguments... arguments) {
    if (g_target.calls == Calls::kPassThrough)
      return Op::redispatch(after_key(keys), std::forward<Arguments>(arguments)...);
    return call_boxed<&run_boxed>(keys, std::forward<Arguments>(arguments)...);
  }
  template <void (*kBoxed)(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*)>
  static Result call_boxed(c10::DispatchKeySet keys, Arguments... arguments) {
    return c10::impl::BoxedKernelWrapper<Result(Arguments...)>::call(
        c10::BoxedKernel::makeFromFunction<kBoxed>(), handle(), keys, std::forward<Arguments>(arguments)...);
  }
  static const c10::OperatorHandle& handle() {
    static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
    return op;
  }

  pager::WorkingRoom* room() const { return &working_room; }
  pager::Temporaries temporaries() const {
    return goes_to_python(keys) ? pager::Temporaries::kLetGo : pager::Temporaries::kKeep;
  }
  static constexpr bool multiplies() {
    constexpr bool kDoes = roofline::calls_cublas(Op::name);
    return kDoes;
  }
  bool is_factory() const { return !(kMayHoldTensor<Arguments> || ...); }
  c10::ArrayRef<c10::IValue> boxed_arguments() const { return {}; }
  [[gnu::noinline]] static const OpInfo& info() {
    static const OpInfo& found = op_info(handle());
    return found;
  }

  template <typename Visit>
  void for_each_argument(Visit&& visit) const {
    std::apply([&](const auto&... each) { (visit_argument<Arguments>(each, visit), ...); }, arguments);
  }
  template <typename Visit>
  void for_each_result(const std::remove_reference_t<Result>& result, Visit&& visit) const {
    visit_results(result, visit);
  }
  Result run() const {
    if (g_target.calls == Calls::kWatched) [[unlikely]]
      return run_watched();
    return redispatch();
  }
  Result redispatch() const {
    return std::apply(
        [&](auto&&... each) -> Result { return Op::redispatch(after_key(keys), std::forward<Arguments>(each)...); },
        arguments);
  }
  [[gnu::noinline, gnu::cold]] Result run_watched() const {
    if (g_target.runner.wants(handle()))
      return std::apply(
          [&](auto&&... each) -> Result { return call_boxed<&run_handed_on>(keys, std::forward<Arguments>(each)...); },
          arguments);
    for_each_argument([](const at::Tensor& tensor, Access access) {
      if (access == Access::kWrite)
        g_target.finder().in_tensor(tensor, [](pager::Block& block) { g_target.announce_write(block); });
    });
    return redispatch();
  }
  [[gnu::noinline, gnu::cold]] std::string describe() const {
    std::vector<at::TensorBase> tensors;
    for_each_argument([&](const at::Tensor& tensor, Access /*access*/) { tensors.push_back(tensor); });
    return describe_call(Op::name, tensors);
  }
};

template <typename Op>
void add(torch::Library& aten) {
  std::string name = Op::name;
  if (*Op::overload_name != '\0') name += std::string(".") + Op::overload_name;
  aten.impl(name.c_str() + std::string_view("aten::").size(), TORCH_FN((Kernel<Op, typename Op::schema>::call)));
}

}  // namespace

// The ops that fill a training step of small networks: an op more is a line more, and some compile time.
void register_hot_ops(torch::Library& aten) {
  namespace ops = at::_ops;
  add<ops::empty_memory_format>(aten), add<ops::empty_strided>(aten), add<ops::empty_like>(aten),
      add<ops::zeros_like>(aten);
  add<ops::ones_like>(aten), add<ops::clone>(aten), add<ops::copy_>(aten), add<ops::fill__Scalar>(aten),
      add<ops::zero_>(aten);
  add<ops::resize_>(aten), add<ops::_to_copy>(aten), add<ops::_local_scalar_dense>(aten);
  add<ops::add_Tensor>(aten), add<ops::add__Tensor>(aten), add<ops::sub_Tensor>(aten), add<ops::mul_Tensor>(aten),
      add<ops::mul__Tensor>(aten);
  add<ops::mul_Scalar>(aten), add<ops::div_Tensor>(aten), add<ops::div__Tensor>(aten), add<ops::add_Scalar>(aten),
      add<ops::add__Scalar>(aten);
  add<ops::neg>(aten), add<ops::sqrt>(aten), add<ops::pow_Tensor_Scalar>(aten), add<ops::addcmul_>(aten),
      add<ops::addcdiv_>(aten);
  add<ops::lerp__Scalar>(aten);
  add<ops::mm>(aten), add<ops::addmm>(aten), add<ops::bmm>(aten), add<ops::cat>(aten), add<ops::sum_dim_IntList>(aten),
      add<ops::sum>(aten);
  add<ops::mean>(aten), add<ops::embedding>(aten);
  add<ops::sigmoid>(aten), add<ops::tanh>(aten), add<ops::relu>(aten), add<ops::gelu>(aten),
      add<ops::threshold_backward>(aten);
  add<ops::sigmoid_backward>(aten), add<ops::tanh_backward>(aten), add<ops::gelu_backward>(aten),
      add<ops::sigmoid_>(aten);
  add<ops::tanh_>(aten), add<ops::relu_>(aten), add<ops::_softmax>(aten), add<ops::_softmax_backward_data>(aten);
  add<ops::_log_softmax>(aten), add<ops::native_layer_norm>(aten), add<ops::native_dropout>(aten),
      add<ops::_thnn_fused_lstm_cell>(aten);
}

}  // namespace tensorpager::intercept
