#include "tensorpager/replay/captured_op.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "tensorpager/replay/below_autograd.h"

namespace tensorpager::replay {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

/// Of named tensors, which later versions of torch do not have.
template <typename Key>
constexpr DispatchKeySet named_tensors() {
  if constexpr (requires { Key::Named; })
    return DispatchKeySet(Key::Named);
  else
    return {};
}

/// Keys of tensors that are more than their bytes.
constexpr DispatchKeySet kOpaque =
    named_tensors<DispatchKey>() |
    DispatchKeySet({DispatchKey::Python, DispatchKey::PythonTLSSnapshot, DispatchKey::FuncTorchBatched,
                    DispatchKey::FuncTorchGradWrapper, DispatchKey::Batched, DispatchKey::Functionalize,
                    DispatchKey::ZeroTensor, DispatchKey::Quantized});

/// Numbers, texts, and lists of them: nothing that changes or that holds memory.
bool is_plain_value(const c10::IValue& value) {
  if (value.isList()) return std::ranges::all_of(value.toListRef(), is_plain_value);
  if (value.isDevice()) return value.toDevice().is_cpu() || value.toDevice().is_cuda();
  return value.isNone() || value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble() ||
         value.isString();
}

bool may_be_tensors(const c10::IValue& value) {
  return value.isList() && !value.toListRef().empty() &&
         std::ranges::all_of(value.toListRef(),
                             [](const c10::IValue& one) { return one.isTensor() || one.isNone(); }) &&
         std::ranges::any_of(value.toListRef(), [](const c10::IValue& one) { return one.isTensor(); });
}

}  // namespace

bool is_plain(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage() || impl->key_set().has_any(kOpaque) || impl->layout() != at::kStrided ||
      !(tensor.is_cpu() || tensor.is_cuda()) || impl->has_symbolic_sizes_strides() || impl->is_sparse_csr() ||
      impl->is_mkldnn() || tensor.is_nested() || tensor.is_quantized())
    return false;
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  return storage != nullptr && (storage->nbytes() == 0 || storage->_mutable_data_ptr_no_checks().get() != nullptr);
}

CapturedTensor::CapturedTensor(const at::Tensor& tensor, std::uint32_t number)
    : storage(number),
      is_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number()),
      offset(tensor.storage_offset()),
      sizes(tensor.sizes().begin(), tensor.sizes().end()),
      strides(tensor.strides().begin(), tensor.strides().end()),
      type(tensor.dtype()),
      keys(tensor.key_set()) {}

at::Tensor CapturedTensor::over(const c10::Storage& memory) const {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(memory), keys, type);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(sizes, strides, offset);
  if (is_wrapped_number) impl->set_wrapped_number(true);  // torch checks that the tensor has no dimension
  return tensor;
}

std::optional<CapturedOp> CapturedOp::capture(const c10::OperatorHandle& op, const OpRule& rule,
                                              c10::ArrayRef<c10::IValue> arguments, base::Device device,
                                              std::vector<c10::Storage>& memory) {
  std::optional<CapturedOp> captured(CapturedOp{op, device});
  captured->arguments_.reserve(arguments.size());
  captured->tensors_.reserve(rule.tensors);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (!(i == rule.generator ? captured->add_generator(arguments[i]) : captured->add(arguments[i], memory)))
      return std::nullopt;
  return captured;
}

/// No generator means the default one.
bool CapturedOp::add_generator(const c10::IValue& value) {
  const c10::DeviceType type = device_ == base::Device::kHost ? c10::DeviceType::CPU : c10::DeviceType::CUDA;
  try {
    const at::Generator generator = value.isNone() ? at::globalContext().defaultGenerator(type) : value.toGenerator();
    if (generator.device().type() != type) return false;
    arguments_.emplace_back().kind = Kind::kGenerator;
    generator_ = std::make_shared<const GeneratorState>(generator);
    return true;
  } catch (const c10::Error&) {
    return false;  // a CUDA graph is captured
  }
}

bool CapturedOp::add(const c10::IValue& value, std::vector<c10::Storage>& memory) {
  const auto first = static_cast<std::uint32_t>(tensors_.size());
  Argument& argument = arguments_.emplace_back();
  argument.first = first;
  if (value.isTensor()) {
    argument.kind = Kind::kTensor;
    argument.count = 1;
    return add_tensor(value.toTensor(), memory);
  }
  if (value.isTensorList() || may_be_tensors(value)) {
    argument.kind = value.isTensorList() ? Kind::kTensors : Kind::kOptionalTensors;
    for (const c10::IValue& element : value.toListRef())
      if (!add_tensor(element.isTensor() ? element.toTensor() : at::Tensor(), memory)) return false;
    argument.count = static_cast<std::uint32_t>(tensors_.size()) - first;
    return true;
  }
  argument.plain = value;
  return is_plain_value(value);
}

bool CapturedOp::add_tensor(const at::Tensor& tensor, std::vector<c10::Storage>& memory) {
  if (!tensor.defined()) {
    tensors_.emplace_back();
    return true;
  }
  if (!is_plain(tensor) || (device_ == base::Device::kHost && !tensor.is_cpu())) return false;
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const auto known = std::ranges::find_if(
      memory, [&](const c10::Storage& one) { return one.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl(); });
  const auto number = static_cast<std::uint32_t>(known - memory.begin());
  if (known == memory.end()) memory.push_back(storage);
  tensors_.emplace_back(tensor, number);
  return true;
}

at::Tensor CapturedOp::tensor(std::uint32_t index, c10::ArrayRef<c10::Storage> memory) const {
  const CapturedTensor& captured = tensors_[index];
  return captured.storage == CapturedTensor::kUndefined ? at::Tensor() : captured.over(memory[captured.storage]);
}

c10::IValue CapturedOp::made(const Argument& argument, c10::ArrayRef<c10::Storage> memory) const {
  const std::uint32_t end = argument.first + argument.count;
  switch (argument.kind) {
    case Kind::kPlain:
      break;
    case Kind::kGenerator:
      return generator_->generator();
    case Kind::kTensor:
      return tensor(argument.first, memory);
    case Kind::kTensors: {
      c10::List<at::Tensor> list;
      for (std::uint32_t i = argument.first; i < end; ++i) list.push_back(tensor(i, memory));
      return list;
    }
    case Kind::kOptionalTensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (std::uint32_t i = argument.first; i < end; ++i) {
        at::Tensor one = tensor(i, memory);
        list.push_back(one.defined() ? std::optional(std::move(one)) : std::nullopt);
      }
      return list;
    }
  }
  return argument.plain;
}

torch::jit::Stack CapturedOp::replay(c10::ArrayRef<c10::Storage> memory) const {
  const AmbientGuard ambient(ambient_);
  const BelowAutograd keys(ambient_.autocasts());
  torch::jit::Stack stack;
  for (const Argument& argument : arguments_) stack.push_back(made(argument, memory));
  // torch drops the arguments of an op that returns references to several of them before it reads these references.
  const torch::jit::Stack arguments = stack;
  op_.callBoxed(stack);
  return stack;
}

}  // namespace tensorpager::replay
