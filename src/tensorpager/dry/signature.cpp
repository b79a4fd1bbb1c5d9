#include "tensorpager/dry/signature.h"

#include <functional>

namespace tensorpager::dry {
namespace {

enum Tag : std::uint64_t {
  kNothing = 1,
  kUndefined,
  kTensor,
  kInteger,
  kFloating,
  kBool,
  kText,
  kDevice,
  kList,
  kOther
};

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 32);
}

}  // namespace

Signature::Signature(const Call& call) {
  words_.push_back(reinterpret_cast<std::uintptr_t>(call.traits.schema));
  const auto arguments = call.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) add(arguments[i], call.traits.has_value_in_signature[i] != 0);
  for (const std::uint64_t word : words_) hash_ = mixed(hash_, word);
}

void Signature::add(const c10::IValue& value, bool with_value) {
  if (value.isTensor()) {
    add(value.toTensor());
  } else if (value.isNone()) {
    words_.push_back(kNothing);
  } else if (value.isInt()) {
    words_.push_back(kInteger);
    if (with_value) words_.push_back(static_cast<std::uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    words_.push_back(kBool | (value.toBool() ? 1U << 8 : 0U));
  } else if (value.isDouble()) {
    words_.push_back(kFloating);
  } else if (value.isString()) {
    words_.push_back(kText);
    words_.push_back(std::hash<std::string_view>{}(value.toStringView()));
  } else if (value.isDevice()) {
    words_.push_back(kDevice | static_cast<std::uint64_t>(value.toDevice().type()) << 8);
  } else if (value.isList()) {
    const auto elements = value.toListRef();
    words_.push_back(kList | elements.size() << 8);
    for (const c10::IValue& element : elements) add(element, with_value);
  } else {
    words_.push_back(kOther);
  }
}

void Signature::add(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    words_.push_back(kUndefined);
    return;
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  words_.push_back(kTensor | static_cast<std::uint64_t>(tensor.scalar_type()) << 8 |
                   static_cast<std::uint64_t>(tensor.device().type()) << 16 | std::uint64_t{sizes.size()} << 24 |
                   (impl->is_wrapped_number() ? std::uint64_t{1} << 32 : 0));
  for (const std::int64_t size : sizes) words_.push_back(static_cast<std::uint64_t>(size));
  for (const std::int64_t stride : strides) words_.push_back(static_cast<std::uint64_t>(stride));
}

}  // namespace tensorpager::dry
