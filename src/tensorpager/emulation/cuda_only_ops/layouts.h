// What the files of this folder share: output tensors laid out as CUDA's kernels lay them out, and a kernel's random
// seed in a tensor of the program. Sizes and strides matter as much as values here, since reports of memory rest on
// them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tensorpager::emulation {

inline bool is_given(const std::optional<at::Tensor>& tensor) { return tensor && tensor->defined(); }

/// The type in which CUDA's kernels compute: float for the 16-bit types.
inline at::ScalarType compute_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}
inline at::Tensor widened(const at::Tensor& tensor) { return tensor.to(compute_type(tensor.scalar_type())); }

inline std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
std::vector<std::int64_t> to_ints(c10::SymIntArrayRef symbolic);

/// Device tensors as at::empty_like gives them: the order of the strides is kept where there are gaps, too.
at::Tensor empty_preserving(const at::Tensor& tensor);
at::Tensor empty_preserving(const at::Tensor& tensor, at::ScalarType type);
/// A dense tensor, in one of the memory formats (kContiguous, kChannelsLast, kChannelsLast3d).
at::Tensor empty_in_format(at::IntArrayRef sizes, at::MemoryFormat format, at::ScalarType type);
at::Tensor empty_in_own_format(const at::Tensor& tensor);
/// A tensor of the same sizes, over rows that are padded to a multiple.
at::Tensor empty_with_padded_rows(const at::Tensor& tensor, std::int64_t multiple);
/// What `tensor.contiguous()` would allocate for the length of an op: undefined if it is contiguous already.
at::Tensor scratch_for_contiguous(const at::Tensor& tensor);

/// The first eight bytes of a tensor's memory hold a seed. For kernels only: both touch the bytes at once.
void put_seed(const at::Tensor& state, std::uint64_t seed);
std::uint64_t seed_in(const at::Tensor& state);

}  // namespace tensorpager::emulation
