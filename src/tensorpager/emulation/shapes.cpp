#include "tensorpager/emulation/shapes.h"

#include <mutex>
#include <optional>
#include <unordered_map>

#include "tensorpager/emulation/tensors.h"
#include "tensorpager/emulation/torch_internals.h"

namespace tensorpager::emulation {
namespace {

/// What a shape function may look at, as a string of words. Arguments that it cannot stand for have no signature.
class Signature {
 public:
  explicit Signature(const OpTraits& traits) { add(reinterpret_cast<std::uintptr_t>(&traits)); }

  bool add(const c10::IValue& value);
  std::string take() { return std::move(words_); }

 private:
  static constexpr std::int64_t kSmall = 16;  // elements of a CPU tensor whose values are part of a signature

  void add(std::uint64_t word) { words_.append(reinterpret_cast<const char*>(&word), sizeof word); }
  bool add(const at::Tensor& tensor);

  std::string words_;
};

bool Signature::add(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    add(std::uint64_t{0});
    return true;
  }
  if (tensor.layout() != at::kStrided) return false;
  const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  add(1 + (static_cast<std::uint64_t>(tensor.scalar_type()) << 8) +
      (static_cast<std::uint64_t>(tensor.device().type()) << 16) + (std::uint64_t{wrapped} << 24) +
      (std::uint64_t{tensor.is_conj()} << 25) + (std::uint64_t{tensor.is_neg()} << 26) +
      (static_cast<std::uint64_t>(tensor.dim()) << 32));
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    add(static_cast<std::uint64_t>(tensor.size(i)));
    add(static_cast<std::uint64_t>(tensor.stride(i)));
  }
  if (is_on_device(tensor) || wrapped) return true;
  if (!tensor.is_cpu() || tensor.numel() > kSmall) return false;
  const at::Tensor values = tensor.contiguous();
  words_.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  return true;
}

bool Signature::add(const c10::IValue& value) {
  if (value.isTensor()) return add(value.toTensor());
  if (value.isNone()) {
    add(std::uint64_t{2});
  } else if (value.isInt()) {
    add(std::uint64_t{3});
    add(static_cast<std::uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    add(std::uint64_t{4} + (value.toBool() ? 256 : 0));
  } else if (value.isDouble()) {
    const double number = value.toDouble();
    add(std::uint64_t{5});
    words_.append(reinterpret_cast<const char*>(&number), sizeof number);
  } else if (value.isString()) {
    add(std::uint64_t{6} + (value.toStringRef().size() << 8));
    words_ += value.toStringRef();
  } else if (value.isDevice()) {
    add(std::uint64_t{7} + (static_cast<std::uint64_t>(value.toDevice().type()) << 8));
  } else if (value.isGenerator()) {
    add(std::uint64_t{8});
  } else if (value.isList()) {
    const auto list = value.toListRef();
    add(std::uint64_t{9} + (list.size() << 8));
    for (const c10::IValue& element : list)
      if (!add(element)) return false;
  } else {
    return false;
  }
  return true;
}

class Cache {
 public:
  std::shared_ptr<const Shapes> find(const std::string& signature) {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(signature);
    return at == known_.end() ? nullptr : at->second;
  }
  void insert(std::string signature, std::shared_ptr<const Shapes> shapes) {
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMost) known_.clear();
    known_.insert_or_assign(std::move(signature), std::move(shapes));
  }

 private:
  static constexpr std::size_t kMost = 16384;  // some MB; a training step has some hundred

  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Shapes>> known_;
};

ResultShape shape_of(const c10::IValue& result, bool is_argument) {
  if (is_argument && !result.isTensor()) return {ResultShape::Kind::kArgument, {}};
  if (result.isTensor())
    return {is_argument ? ResultShape::Kind::kArgument : ResultShape::Kind::kTensor, {Shape::of(result.toTensor())}};
  TORCH_CHECK(result.isTensorList(), "a result that is no tensor");
  ResultShape list{ResultShape::Kind::kList, {}};
  for (const at::Tensor& tensor : result.toTensorVector()) list.tensors.push_back(Shape::of(tensor));
  return list;
}

/// In evaluation CUDA returns no statistics, which torch's shape function does not know.
void correct(const OpTraits& traits, const std::vector<c10::IValue>& arguments, Shapes& shapes) {
  constexpr std::size_t kTraining = 5;
  if (traits.name != "aten::native_batch_norm" || shapes.results.size() != 3 || arguments[kTraining].toBool()) return;
  for (const std::size_t statistic : {1, 2}) {
    Shape& shape = shapes.results[statistic].tensors.front();
    shape.sizes = {0};
    shape.strides = {1};
  }
}

Shapes ask(const c10::OperatorHandle& op, const OpTraits& traits, const std::vector<c10::IValue>& arguments) {
  Shapes shapes;
  try {
    const BackendOnly plain;
    torch::jit::Stack stack;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue value = map_tensors(arguments[i], meta_of);
      if (value.isDevice()) value = c10::Device(c10::kMeta);
      if (static_cast<int>(i) == traits.generator) value = c10::IValue();
      stack.push_back(std::move(value));
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    for (std::size_t i = 0; i < stack.size(); ++i)
      shapes.results.push_back(shape_of(stack[i], traits.result_is[i] != OpTraits::kNone));
    correct(traits, arguments, shapes);
  } catch (const c10::NotImplementedError& error) {
    shapes.failure = error.what_without_backtrace();
    shapes.is_missing = true;
  } catch (const c10::Error& error) {
    shapes.failure = error.what_without_backtrace();
  } catch (const std::exception& error) {
    shapes.failure = error.what();
  }
  return shapes;
}

}  // namespace

Shape Shape::of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {{}, {}, c10::ScalarType::Undefined, false};
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type(), true};
}

std::shared_ptr<const Shapes> shapes_of(const c10::OperatorHandle& op, const OpTraits& traits,
                                        const std::vector<c10::IValue>& arguments) {
  static auto* const cache = new Cache;
  Signature signature(traits);
  bool has_signature = true;
  for (const c10::IValue& argument : arguments) has_signature = has_signature && signature.add(argument);
  if (!has_signature) return std::make_shared<const Shapes>(ask(op, traits, arguments));
  std::string key = signature.take();
  if (auto known = cache->find(key)) return known;
  auto shapes = std::make_shared<const Shapes>(ask(op, traits, arguments));
  cache->insert(std::move(key), shapes);
  return shapes;
}

}  // namespace tensorpager::emulation
