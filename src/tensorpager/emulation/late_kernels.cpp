#include "tensorpager/emulation/late_kernels.h"

#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <stdexcept>

#include "tensorpager/emulation/tensors.h"
#include "tensorpager/emulation/torch_internals.h"

namespace tensorpager::emulation {
namespace {

/// Number of elements from a tensor's first to its last. Strides of tensors are never negative.
std::size_t extent(const at::Tensor& tensor) {
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(last) + 1;
}

/// Kernels divide their work among as many threads as they would on the thread that queued them, as sums differ by it.
class ThreadsOf {
 public:
  explicit ThreadsOf(int threads) : before_(at::get_num_threads()) {
    if (threads != before_) at::set_num_threads(threads);
    changed_ = threads != before_;
  }
  ~ThreadsOf() {
    if (changed_) at::set_num_threads(before_);
  }
  ThreadsOf(const ThreadsOf&) = delete;
  ThreadsOf& operator=(const ThreadsOf&) = delete;

 private:
  int before_;
  bool changed_ = false;
};

}  // namespace

at::Tensor Operands::alias(const at::Tensor& tensor, bool written) {
  if (!tensor.defined()) return tensor;
  if (!is_on_device(tensor)) return value_of(tensor);
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto* const base = static_cast<const std::byte*>(storage->data());
  if (tensor.numel() > 0) {
    TORCH_CHECK(base, "emulated CUDA: a kernel was launched on a tensor of ", tensor.numel() * tensor.element_size(),
                " bytes whose storage has no memory: was it freed (resize_(0)) before its last use?");
    const std::byte* const first = base + static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
    touched_.push_back({first, extent(tensor) * tensor.itemsize(), written});
  }
  const auto known =
      std::find_if(storages_.begin(), storages_.end(), [&](const auto& entry) { return entry.first == storage; });
  if (known != storages_.end()) return over(known->second, c10::DispatchKey::CPU, tensor);
  c10::Storage view(c10::Storage::use_byte_size_t(), storage->nbytes(),
                    c10::DataPtr(fake_cuda::kernel_view(base), c10::kCPU), nullptr, false);
  storages_.emplace_back(storage, view);
  return over(std::move(view), c10::DispatchKey::CPU, tensor);
}

std::optional<at::Tensor> Operands::alias(const std::optional<at::Tensor>& tensor, bool written) {
  if (!tensor || !tensor->defined()) return std::nullopt;
  return alias(*tensor, written);
}

void launch(const char* name, Operands& with, std::function<void()> kernel, const fake_cuda::Work& work) {
  auto late = [kernel = std::move(kernel), threads = at::get_num_threads()] {
    const BackendOnly plain;
    const ThreadsOf same(threads);
    try {
      kernel();
    } catch (const c10::Error& error) {
      throw std::runtime_error(error.what_without_backtrace());
    }
  };
  fake_cuda::launch(at::cuda::getCurrentCUDAStream().stream(), name, with.take_ranges(), std::move(late), work);
}

void wait_for_current_stream() { C10_CUDA_CHECK(cudaStreamSynchronize(at::cuda::getCurrentCUDAStream().stream())); }

at::Tensor empty(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  return at::Tensor(
      at::detail::empty_strided_cuda(sizes, strides, type, c10::Device(c10::kCUDA, c10::cuda::current_device())));
}

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(1, sizes[i]);
  }
  return empty(sizes, strides, type);
}

at::Tensor empty_as(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? empty(tensor.sizes(), tensor.strides(), tensor.scalar_type())
                                               : empty(tensor.sizes(), tensor.scalar_type());
}

}  // namespace tensorpager::emulation
