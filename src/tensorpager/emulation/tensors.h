// Tensors of the same shape over other memory, and the tensors inside an op's arguments.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DispatchKey.h>

#include <optional>
#include <utility>

namespace tensorpager::emulation {

inline bool is_on_device(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cuda(); }

/// A tensor with the sizes, strides, offset and bits (conjugate, negative, wrapped number) of another one.
at::Tensor over(c10::Storage storage, c10::DispatchKey backend, const at::Tensor& like);
/// The same for shape functions; one that is not on the device comes back as it is.
at::Tensor meta_of(const at::Tensor& tensor);
/// A copy of a CPU tensor as it is now.
at::Tensor value_of(const at::Tensor& tensor);

/// The value with `map` applied to each defined tensor in it.
template <typename Map>
c10::IValue map_tensors(const c10::IValue& value, Map&& map) {
  const auto mapped = [&](const at::Tensor& tensor) { return tensor.defined() ? map(tensor) : tensor; };
  if (value.isTensor()) return mapped(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(mapped(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector())
      list.push_back(tensor && tensor->defined() ? std::optional(map(*tensor)) : std::nullopt);
    return list;
  }
  return value;
}

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      if (tensor.defined()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor && tensor->defined()) visit(*tensor);
  }
}

}  // namespace tensorpager::emulation
