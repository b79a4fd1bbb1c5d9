#include "tensorpager/dry/stand_ins.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tensorpager/dry/key.h"

namespace tensorpager::dry {
namespace {

template <typename Element>
void fill_with(void* data, std::size_t bytes, Element value) {
  std::fill_n(static_cast<Element*>(data), bytes / sizeof(Element), value);
}

/// Writes 1 to each element; returns false for types that have no such pattern here.
bool fill_with_ones(void* data, std::size_t bytes, at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      fill_with<float>(data, bytes, 1);
      return true;
    case at::kDouble:
      fill_with<double>(data, bytes, 1);
      return true;
    case at::kHalf:
      fill_with<c10::Half>(data, bytes, c10::Half(1.F));
      return true;
    case at::kBFloat16:
      fill_with<c10::BFloat16>(data, bytes, c10::BFloat16(1.F));
      return true;
    case at::kComplexFloat:
      fill_with<c10::complex<float>>(data, bytes, 1);
      return true;
    case at::kComplexDouble:
      fill_with<c10::complex<double>>(data, bytes, 1);
      return true;
    default:
      return false;
  }
}

/// One element of `tensor` with as many dimensions.
at::Tensor single_element(const at::Tensor& tensor, std::size_t least_bytes) {
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  const std::vector<std::int64_t> single(static_cast<std::size_t>(tensor.dim()), 1);
  const at::TensorOptions options = tensor.options().device(at::kCPU).requires_grad(false);
  if (tensor.numel() == 0) return at::zeros(single, options);
  if (is_floating(tensor) && bytes_of(tensor) >= least_bytes) return at::ones(single, options);
  return at::as_strided(tensor, single, single, tensor.storage_offset()).to(at::kCPU).clone();
}

/// A large tensor is left as it is: fresh pages are zero.
void zero_on_host(const at::Tensor& tensor, std::size_t most_bytes) {
  const BackendGuard guard;
  if (bytes_of(tensor) <= most_bytes) tensor.zero_();
}

bool is_first_true(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.scalar_type() == at::kBool && tensor.numel() > 0 &&
         *tensor.const_data_ptr<bool>();
}

/// The bool results of a call, asked for when the first is met.
class Truths {
 public:
  Truths(const Call& call, c10::ArrayRef<c10::IValue> arguments, std::size_t least_bytes)
      : call_(call), arguments_(arguments), least_bytes_(least_bytes) {}

  /// Of result `place`, counted through lists. A mask that is drawn selects all.
  bool at(std::size_t place) {
    if (call_.traits.draws) return true;
    if (!results_) {
      results_.emplace();
      for (const c10::IValue& value : results_for_ones(call_, arguments_, least_bytes_))
        for_each_tensor(value, [&](const at::Tensor& tensor) { results_->push_back(tensor); });
    }
    return place < results_->size() && is_first_true((*results_)[place]);
  }

 private:
  const Call& call_;
  const c10::ArrayRef<c10::IValue> arguments_;
  const std::size_t least_bytes_;
  std::optional<std::vector<at::Tensor>> results_;
};

}  // namespace

torch::jit::Stack results_for_ones(const Call& call, c10::ArrayRef<c10::IValue> arguments, std::size_t least_bytes) {
  const BackendGuard guard;
  try {
    torch::jit::Stack stack;
    for (const c10::IValue& value : arguments) {
      if (value.isTensor()) {
        stack.emplace_back(single_element(value.toTensor(), least_bytes));
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const c10::IValue& element : value.toListRef())
          list.push_back(single_element(element.toTensor(), least_bytes));
        stack.emplace_back(std::move(list));
      } else {
        stack.push_back(value);
      }
    }
    const torch::jit::Stack kept = stack;  // see describe_by_shapes
    call.op.callBoxed(stack);
    return stack;
  } catch (const c10::Error&) {
    return {};
  }
}

template <typename Visit>
void StandIns::for_each_result(c10::ArrayRef<c10::IValue> results, Visit&& visit) {
  std::size_t place = 0;
  for (const c10::IValue& value : results)
    for_each_tensor(value, [&](const at::Tensor& tensor) { visit(tensor, place++); });
}

/// For a result that is alone on its storage.
void StandIns::fill_storage(const at::Tensor& tensor, bool truth, Large large) const {
  const std::size_t bytes = tensor.storage().nbytes();
  if (bytes == 0) return;
  void* data = tensor.storage().mutable_data();
  if (is_floating(tensor)) {
    if (bytes >= options_.least_bytes && large == Large::kLeave) return;
    if (!fill_with_ones(data, bytes, tensor.scalar_type())) std::memset(data, 0, bytes);
  } else if (tensor.scalar_type() == at::kBool) {
    std::memset(data, truth ? 1 : 0, bytes < options_.least_constant_bools ? bytes : 1);
  } else if (bytes <= options_.most_zeroed_bytes) {
    std::memset(data, 0, bytes);
  }
}

void StandIns::fill_tensor(const at::Tensor& tensor, bool truth, Large large) const {
  const std::size_t bytes = bytes_of(tensor);
  const BackendGuard guard;
  if (is_floating(tensor)) {
    if (bytes < options_.least_bytes || large == Large::kFill) tensor.fill_(1);
  } else if (tensor.scalar_type() == at::kBool && bytes >= options_.least_constant_bools) {
    tensor.as_strided({1}, {1}, tensor.storage_offset()).fill_(truth);
  } else if (bytes <= options_.most_zeroed_bytes) {
    tensor.fill_(tensor.scalar_type() == at::kBool && truth);
  }
}

void StandIns::fill(const Call& call, const Outcome& outcome, c10::ArrayRef<c10::IValue> results) const {
  Truths truths(call, call.arguments(), options_.least_bytes);
  for_each_result(results, [&](const at::Tensor& tensor, std::size_t place) {
    if (!tensor.defined()) return;
    const bool truth = tensor.scalar_type() == at::kBool && truths.at(place);
    if (outcome.tensors[place].origin == ResultTensor::Origin::kNew) fill_storage(tensor, truth, Large::kLeave);
    if (outcome.tensors[place].origin == ResultTensor::Origin::kArgument) fill_tensor(tensor, truth, Large::kLeave);
  });
}

void StandIns::refill(const Call& call, const Outcome& outcome, c10::ArrayRef<c10::IValue> results) const {
  Truths truths(call, call.arguments(), options_.least_bytes);
  for_each_result(results, [&](const at::Tensor& tensor, std::size_t place) {
    if (!tensor.defined()) return;
    const bool truth = tensor.scalar_type() == at::kBool && truths.at(place);
    if (outcome.tensors[place].origin == ResultTensor::Origin::kNew) fill_storage(tensor, truth, Large::kFill);
  });
  call.for_each_tensor_argument([&](const at::Tensor& tensor, const OpTraits::Argument& argument) {
    if (argument.written && is_floating(tensor) && bytes_of(tensor) >= options_.least_bytes)
      fill_tensor(tensor, false, Large::kFill);
  });
}

void StandIns::fill_written(const Call& call) const {
  std::optional<Truths> truths;
  call.for_each_tensor_argument([&](const at::Tensor& tensor, const OpTraits::Argument& argument) {
    if (!argument.written || is_floating(tensor)) return;
    if (!truths) truths.emplace(call, call.arguments(), options_.least_bytes);
    fill_tensor(tensor, tensor.scalar_type() == at::kBool && truths->at(0), Large::kLeave);
  });
}

void StandIns::fill_on_card(const Call& call, c10::ArrayRef<c10::IValue> arguments,
                            c10::ArrayRef<c10::IValue> results) const {
  Truths truths(call, arguments, options_.least_bytes);
  for (const OpTraits::Argument& argument : call.traits.tensor_arguments) {
    if (!argument.written || !arguments[argument.index].isTensor()) continue;
    const at::Tensor& tensor = arguments[argument.index].toTensor();
    if (!tensor.defined()) continue;
    if (!is_floating(tensor))
      fill_tensor(tensor, tensor.scalar_type() == at::kBool && truths.at(0), Large::kLeave);
    else if (tensor.is_cpu())
      zero_on_host(tensor, options_.most_zeroed_bytes);
  }
  std::size_t place = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    for_each_tensor(results[i], [&](const at::Tensor& tensor) {
      const std::size_t at = place++;
      if (!tensor.defined() || !is_ordinary(tensor)) return;
      const bool is_new = call.traits.returned[i] == OpTraits::kNew;
      if (is_new) fill_tensor(tensor, tensor.scalar_type() == at::kBool && truths.at(at), Large::kLeave);
    });
  }
}

}  // namespace tensorpager::dry
