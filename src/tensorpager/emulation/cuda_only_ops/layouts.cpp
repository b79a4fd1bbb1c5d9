#include "tensorpager/emulation/cuda_only_ops/layouts.h"

#include <ATen/ExpandUtils.h>

#include <cstring>

#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {

std::vector<std::int64_t> to_ints(c10::SymIntArrayRef symbolic) {
  std::vector<std::int64_t> ints;
  ints.reserve(symbolic.size());
  for (const c10::SymInt& size : symbolic) ints.push_back(size.expect_int());
  return ints;
}

at::Tensor empty_preserving(const at::Tensor& tensor) { return empty_preserving(tensor, tensor.scalar_type()); }

at::Tensor empty_preserving(const at::Tensor& tensor, at::ScalarType type) {
  if (tensor.is_non_overlapping_and_dense()) return empty(tensor.sizes(), tensor.strides(), type);
  return empty(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), type);
}

at::Tensor empty_in_format(at::IntArrayRef sizes, at::MemoryFormat format, at::ScalarType type) {
  if (format == at::MemoryFormat::ChannelsLast && sizes.size() == 4)
    return empty(sizes, c10::get_channels_last_strides_2d(sizes), type);
  if (format == at::MemoryFormat::ChannelsLast3d && sizes.size() == 5)
    return empty(sizes, c10::get_channels_last_strides_3d(sizes), type);
  return empty(sizes, type);
}

at::Tensor empty_in_own_format(const at::Tensor& tensor) {
  return empty_in_format(tensor.sizes(), tensor.suggest_memory_format(), tensor.scalar_type());
}

at::Tensor empty_with_padded_rows(const at::Tensor& tensor, std::int64_t multiple) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.back() = round_up(sizes.back(), multiple);
  return empty(sizes, tensor.scalar_type()).narrow(-1, 0, tensor.size(-1));
}

at::Tensor scratch_for_contiguous(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_contiguous()) return {};
  return empty(tensor.sizes(), tensor.scalar_type());
}

void put_seed(const at::Tensor& state, std::uint64_t seed) {
  std::memcpy(state.mutable_data_ptr(), &seed, sizeof(seed));
}

std::uint64_t seed_in(const at::Tensor& state) {
  std::uint64_t seed = 0;
  std::memcpy(&seed, state.const_data_ptr(), sizeof(seed));
  return seed;
}

}  // namespace tensorpager::emulation
