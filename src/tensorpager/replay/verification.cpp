#include "tensorpager/replay/verification.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tensorpager/replay/byte_comparison.h"
#include "tensorpager/replay/draw_watch.h"
#include "tensorpager/replay/scratch_allocator.h"
#include "tensorpager/replay/storages.h"

namespace tensorpager::replay {
namespace {

using Reason = std::optional<std::string>;

c10::Storage scratch_copy_of(const c10::Storage& storage) {
  const ScratchScope scratch(kFirstFill);
  return copy_of(storage);
}

c10::Storage new_scratch(std::size_t bytes, std::byte fill) {
  const ScratchScope scratch(fill);
  return new_storage(bytes, c10::DeviceType::CPU);
}

/// `24 of 4096 bytes, from byte 128 on`; nullopt if all that was written is the same.
Reason compare(const c10::Storage& living, const c10::Storage& first, const c10::Storage& second) {
  std::ostringstream text;
  if (living.nbytes() != first.nbytes() || living.nbytes() != second.nbytes()) {
    text << "has " << living.nbytes() << " bytes of storage, and " << first.nbytes() << " and " << second.nbytes();
    return text.str();
  }
  const auto difference = compare_bytes(bytes_of(living), bytes_of(first), bytes_of(second));
  if (!difference) return std::nullopt;
  text << "differs in " << difference->bytes << " of " << living.nbytes() << " bytes, first in byte "
       << difference->first;
  if (difference->unstable > 0) text << ", of which " << difference->unstable << " also from replay to replay";
  return text.str();
}

bool has_same_metadata(const at::Tensor& one, const at::Tensor& other) {
  return is_plain(other) && one.dtype() == other.dtype() && one.sizes() == other.sizes() &&
         one.strides() == other.strides() && one.storage_offset() == other.storage_offset() &&
         one.is_conj() == other.is_conj() && one.is_neg() == other.is_neg();
}

std::string metadata_of(const at::Tensor& tensor) {
  std::ostringstream text;
  if (!tensor.defined()) return "undefined";
  if (!is_plain(tensor)) return "opaque";
  text << tensor.dtype().name() << tensor.sizes() << " with strides " << tensor.strides() << " at "
       << tensor.storage_offset();
  return text.str();
}

/// A number that an op returned beside tensors. NaN is as good as NaN.
bool is_same_value(const c10::IValue& one, const c10::IValue& other) {
  if (one.isDouble() && other.isDouble()) {
    const double a = one.toDouble(), b = other.toDouble();
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (one.isInt() || one.isBool()) return one == other;
  return one.tagKind() == other.tagKind();
}

}  // namespace

Verification::Verification(const c10::OperatorHandle& op, const OpRule& rule, c10::ArrayRef<c10::IValue> arguments)
    : rule_(rule) {
  std::vector<c10::Storage> living;
  captured_ = CapturedOp::capture(op, rule, arguments, base::Device::kHost, living);
  if (!captured_) return;
  memory_.resize(living.size());
  const std::vector<Use> uses = uses_of(rule, rule.fills_in(arguments), *captured_, living.size());
  for (std::size_t i = 0; i < living.size(); ++i) {
    Memory& memory = memory_[i];
    memory.use = uses[i];
    memory.living = std::move(living[i]);
    if (memory.use == Use::kFilled) {
      memory.copies = {new_scratch(memory.living.nbytes(), kFirstFill),
                       new_scratch(memory.living.nbytes(), kSecondFill)};
      continue;
    }
    memory.copies[0] = scratch_copy_of(memory.living);
    memory.copies[1] = memory.use == Use::kRead ? memory.copies[0] : scratch_copy_of(memory.living);
  }
}

Reason Verification::difference(c10::ArrayRef<c10::IValue> results) {
  if (auto reason = unannounced_write()) return reason;
  if (!captured_->can_be_replayed()) return "changes a switch of the process that its results depend on";
  DrawWatch draws;
  try {
    const Replayed first = replay(0, kFirstFill);
    const Replayed second = replay(1, kSecondFill);
    if (draws.undo_draws()) return "draws from the default generator";
    auto reason = compare_results(results, first, second);
    return reason ? reason : compare_written();
  } catch (const std::exception& error) {
    draws.undo_draws();
    const std::string text = error.what();
    return "cannot be repeated: " + text.substr(0, text.find('\n'));
  }
}

/// What is only read must be as it was before the op.
Reason Verification::unannounced_write() const {
  for (const Memory& memory : memory_) {
    if (memory.use != Use::kRead) continue;
    const auto now = bytes_of(memory.living), before = bytes_of(memory.copies[0]);
    if (!std::ranges::equal(now, before)) return "writes an argument that its schema says it only reads";
  }
  return std::nullopt;
}

Verification::Replayed Verification::replay(std::size_t which, std::byte fill) const {
  Replayed replayed;
  for (const Memory& memory : memory_) replayed.memory.push_back(memory.copies[which]);
  const ScratchScope scratch(fill);
  replayed.results = captured_->replay(replayed.memory);
  return replayed;
}

Reason Verification::compare_results(c10::ArrayRef<c10::IValue> results, const Replayed& first,
                                     const Replayed& second) const {
  if (first.results.size() != results.size() || second.results.size() != results.size())
    return "returns another number of results";
  for (std::size_t i = 0; i < results.size(); ++i) {
    const c10::IValue &one = results[i], &of_first = first.results[i], &of_second = second.results[i];
    const auto compare_one = [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) -> Reason {
      auto reason = compare_tensors(rule_.returns_alias[i], a, first, b, second, c);
      return reason ? Reason("result " + std::to_string(i) + " " + *reason) : std::nullopt;
    };
    if (one.isTensor() && of_first.isTensor() && of_second.isTensor()) {
      if (auto reason = compare_one(one.toTensor(), of_first.toTensor(), of_second.toTensor())) return reason;
    } else if (one.isTensorList() && of_first.isTensorList() && of_second.isTensorList()) {
      const auto a = one.toTensorVector(), b = of_first.toTensorVector(), c = of_second.toTensorVector();
      if (a.size() != b.size() || a.size() != c.size()) return "returns a list of another length";
      for (std::size_t k = 0; k < a.size(); ++k)
        if (auto reason = compare_one(a[k], b[k], c[k])) return reason;
    } else if (!is_same_value(one, of_first) || !is_same_value(one, of_second)) {
      return "result " + std::to_string(i) + " differs";
    }
  }
  return std::nullopt;
}

Reason Verification::compare_tensors(bool may_be_alias, const at::Tensor& result, const Replayed& first,
                                     const at::Tensor& of_first, const Replayed& second,
                                     const at::Tensor& of_second) const {
  if (!result.defined() && !of_first.defined() && !of_second.defined()) return std::nullopt;
  // Where the op itself gives something else than bytes in memory, no plan can drop it.
  if (result.defined() && !is_plain(result)) return std::nullopt;
  for (const at::Tensor* const replayed : {&of_first, &of_second})
    if (!result.defined() || !replayed->defined() || !has_same_metadata(result, *replayed))
      return "is " + metadata_of(result) + ", and replayed " + metadata_of(*replayed);
  const auto storage = [](const at::Tensor& tensor) -> const c10::Storage& {
    return tensor.unsafeGetTensorImpl()->unsafe_storage();
  };
  const auto number = number_of(result);
  if (!number) return compare(storage(result), storage(of_first), storage(of_second));
  if (!may_be_alias) return "is an alias of an argument, which its schema does not say";
  // Its bytes are compared with those of the argument.
  const auto lies_in = [&](const at::Tensor& tensor, const Replayed& replayed) {
    return storage(tensor).unsafeGetStorageImpl() == replayed.memory[*number].unsafeGetStorageImpl();
  };
  if (!lies_in(of_first, first) || !lies_in(of_second, second)) return "is an alias of another argument";
  return std::nullopt;
}

Reason Verification::compare_written() const {
  for (const Memory& memory : memory_) {
    if (memory.use == Use::kFilled) {
      const auto is_same = [&](const c10::Storage& copy) {
        return std::ranges::equal(bytes_of(memory.living), bytes_of(copy));
      };
      if (!std::ranges::all_of(memory.copies, is_same)) return "an argument that it fills differs";
    }
    if (memory.use != Use::kWritten) continue;
    if (auto reason = compare(memory.living, memory.copies[0], memory.copies[1]))
      return "an argument that it writes " + *reason;
  }
  return std::nullopt;
}

std::optional<std::size_t> Verification::number_of(const at::Tensor& result) const {
  const c10::StorageImpl* storage = result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const auto found = std::ranges::find_if(
      memory_, [&](const Memory& memory) { return memory.living.unsafeGetStorageImpl() == storage; });
  if (found == memory_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - memory_.begin());
}

}  // namespace tensorpager::replay
