#include "tensorpager/dry/outcome.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/resize_native.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "tensorpager/dry/key.h"

namespace tensorpager::dry {
namespace {

using Origin = ResultTensor::Origin;

bool add_tensor(const at::Tensor& tensor, const std::vector<at::Tensor>& arguments, std::vector<at::Tensor>& earlier,
                Outcome& outcome) {
  ResultTensor result;
  if (tensor.defined()) {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (tensor.layout() != at::kStrided || tensor.is_nested() || impl->has_symbolic_sizes_strides()) return false;
    const auto shares = [&](const at::Tensor& other) { return other.defined() && other.is_alias_of(tensor); };
    result.type = tensor.scalar_type();
    result.sizes = tensor.sizes();
    result.strides = tensor.strides();
    result.offset = tensor.storage_offset();
    result.storage_bytes = tensor.storage().nbytes();
    result.fills_storage =
        result.offset == 0 &&
        result.storage_bytes == at::detail::computeStorageNbytes(result.sizes, result.strides, tensor.itemsize());
    result.origin = Origin::kNew;
    if (const auto same = std::ranges::find_if(arguments, [&](const at::Tensor& one) { return one.is_same(tensor); });
        same != arguments.end()) {
      result.origin = Origin::kArgument;
      result.of = static_cast<std::uint32_t>(same - arguments.begin());
    } else if (const auto base = std::ranges::find_if(arguments, shares); base != arguments.end()) {
      if (base->scalar_type() != result.type) return false;
      result.origin = Origin::kArgumentView;
      result.of = static_cast<std::uint32_t>(base - arguments.begin());
      result.offset -= base->storage_offset();
    } else if (const auto first = std::ranges::find_if(earlier, shares); first != earlier.end()) {
      result.origin = Origin::kResultView;
      result.of = static_cast<std::uint32_t>(first - earlier.begin());
    }
  }
  if (result.origin == Origin::kNew) outcome.made_in_order.push_back(static_cast<std::uint32_t>(earlier.size()));
  earlier.push_back(tensor);
  outcome.tensors.push_back(std::move(result));
  return true;
}

at::Tensor view_of(const at::Tensor& base, const ResultTensor& result, std::int64_t offset) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(base.storage()), base.key_set(),
                                                       c10::scalarTypeToTypeMeta(result.type));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes, result.strides, offset);
  return made;
}

at::Tensor make_new(const ResultTensor& result) {
  if (result.fills_storage) return at::detail::empty_strided_cpu(result.sizes, result.strides, result.type);
  const auto bytes = static_cast<std::int64_t>(result.storage_bytes);
  return view_of(at::detail::empty_cpu({bytes}, at::kByte), result, result.offset);
}

/// An argument that is returned; one that the kernel would resize is resized.
at::Tensor returned_argument(const at::Tensor& argument, const ResultTensor& result) {
  if (argument.sizes() != at::IntArrayRef(result.sizes)) {
    const BackendGuard guard;
    argument.resize_(result.sizes);
    if (argument.strides() != at::IntArrayRef(result.strides))
      argument.as_strided_(result.sizes, result.strides, argument.storage_offset());
  }
  return argument;
}

constexpr std::size_t kSlots = std::size_t{1} << 17;
constexpr std::size_t kMostKept = kSlots / 4 * 3;
std::array<std::atomic<const Outcome*>, kSlots> g_slots{};
std::atomic<std::size_t> g_kept{0};

}  // namespace

std::vector<at::Tensor> tensor_arguments(const OpTraits& traits, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<at::Tensor> tensors;
  for (const OpTraits::Argument& argument : traits.tensor_arguments)
    for_each_tensor(arguments[argument.index], [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

bool describe(const std::vector<at::Tensor>& arguments, c10::ArrayRef<c10::IValue> results, Outcome& outcome) {
  std::vector<at::Tensor> earlier;
  for (const c10::IValue& value : results) {
    Return described;
    if (value.isTensor()) {
      if (!add_tensor(value.toTensor(), arguments, earlier, outcome)) return false;
    } else if (value.isTensorList()) {
      described.kind = Return::Kind::kTensors;
      described.count = 0;
      for (const c10::IValue& element : value.toListRef()) {
        if (!add_tensor(element.toTensor(), arguments, earlier, outcome)) return false;
        ++described.count;
      }
    } else {
      described.kind = Return::Kind::kPlain;
      described.count = 0;
      described.plain = value;
    }
    outcome.returns.push_back(std::move(described));
  }
  return true;
}

std::vector<c10::IValue> make_results(const Outcome& outcome, const Call& call) {
  const auto arguments = call.arguments();
  c10::SmallVector<at::Tensor, 8> made;
  const auto argument = [&](std::uint32_t place) -> const at::Tensor& {
    for (const OpTraits::Argument& one : call.traits.tensor_arguments) {
      const c10::IValue& value = arguments[one.index];
      if (value.isTensor()) {
        if (place-- == 0) return value.toTensor();
      } else if (value.isList()) {
        for (const c10::IValue& element : value.toListRef())
          if (element.isTensor() && place-- == 0) return element.toTensor();
      }
    }
    TORCH_INTERNAL_ASSERT(false, "Tensorpager: ", call.traits.name, " has fewer tensors than when it was described");
  };
  made.resize(outcome.tensors.size());
  for (const std::uint32_t place : outcome.made_in_order) made[place] = make_new(outcome.tensors[place]);
  for (std::size_t i = 0; i < outcome.tensors.size(); ++i) {
    const ResultTensor& result = outcome.tensors[i];
    switch (result.origin) {
      case Origin::kUndefined:
      case Origin::kNew:
        break;
      case Origin::kArgument:
        made[i] = returned_argument(argument(result.of), result);
        break;
      case Origin::kArgumentView: {
        const at::Tensor& base = argument(result.of);
        made[i] = view_of(base, result, base.storage_offset() + result.offset);
        break;
      }
      case Origin::kResultView:
        made[i] = view_of(made[result.of], result, result.offset);
        break;
    }
  }
  std::vector<c10::IValue> results;
  results.reserve(outcome.returns.size());
  std::size_t next = 0;
  for (const Return& one : outcome.returns) {
    switch (one.kind) {
      case Return::Kind::kTensor:
        results.emplace_back(std::move(made[next++]));
        break;
      case Return::Kind::kTensors: {
        c10::List<at::Tensor> list;
        list.reserve(one.count);
        for (std::uint32_t i = 0; i < one.count; ++i) list.push_back(std::move(made[next++]));
        results.emplace_back(std::move(list));
        break;
      }
      case Return::Kind::kPlain:
        results.push_back(one.plain);
        break;
    }
  }
  return results;
}

const Outcome* find_outcome(const Signature& signature) {
  for (std::size_t slot = signature.hash() % kSlots;; slot = (slot + 1) % kSlots) {
    const Outcome* there = g_slots[slot].load(std::memory_order_acquire);
    if (there == nullptr || there->signature == signature) return there;
  }
}

const Outcome& keep_outcome(std::unique_ptr<const Outcome> outcome) {
  thread_local std::unique_ptr<const Outcome> not_kept;
  if (g_kept.load(std::memory_order_relaxed) >= kMostKept) {
    not_kept = std::move(outcome);
    return *not_kept;
  }
  for (std::size_t slot = outcome->signature.hash() % kSlots;; slot = (slot + 1) % kSlots) {
    const Outcome* there = nullptr;
    if (g_slots[slot].compare_exchange_strong(there, outcome.get(), std::memory_order_acq_rel)) {
      g_kept.fetch_add(1, std::memory_order_relaxed);
      return *outcome.release();
    }
    if (there->signature == outcome->signature) return *there;
  }
}

std::uint64_t outcomes_kept() { return g_kept.load(std::memory_order_relaxed); }

}  // namespace tensorpager::dry
