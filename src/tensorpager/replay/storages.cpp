#include "tensorpager/replay/storages.h"

#include <ATen/ops/equal.h>

#include <algorithm>

#include "tensorpager/replay/below_autograd.h"

namespace tensorpager::replay {
namespace {

/// The bytes as integers as large as they can be: a comparison on a device makes a byte for each.
at::Tensor integers_in(const c10::Storage& storage) {
  const std::size_t bytes = storage.nbytes();
  const bool are_large = bytes % sizeof(std::int64_t) == 0;
  const at::ScalarType type = are_large ? at::kLong : at::kByte;
  at::Tensor integers = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::scalarTypeToTypeMeta(type));
  integers.unsafeGetTensorImpl()->set_sizes_contiguous(static_cast<std::int64_t>(bytes / c10::elementSize(type)));
  return integers;
}

}  // namespace

bool have_same_bytes(const c10::Storage& one, const c10::Storage& other) {
  if (one.nbytes() != other.nbytes()) return false;
  if (one.device_type() == c10::DeviceType::CPU) return std::ranges::equal(bytes_of(one), bytes_of(other));
  const BelowAutograd keys(/*autocasts=*/false);
  return at::equal(integers_in(one), integers_in(other));
}

}  // namespace tensorpager::replay
