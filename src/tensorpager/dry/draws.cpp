#include "tensorpager/dry/draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

#include "tensorpager/dry/key.h"

namespace tensorpager::dry {
namespace {

/// Elements of a piece: stays in a cache, and a multiple of the 16 that normal_ draws at a time. Of a remainder it
/// draws the last 16 again, so no piece may be shorter.
constexpr std::int64_t kPiece = 65536;
constexpr std::int64_t kLeastPiece = 16;

/// Overwritten by the thread's next.
at::Tensor scratch(std::int64_t elements, at::ScalarType type) {
  thread_local const c10::DataPtr memory =
      c10::GetDefaultCPUAllocator()->allocate(static_cast<std::size_t>(kPiece) * sizeof(double));
  const std::size_t bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(memory.get(), at::kCPU), nullptr, false);
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                       c10::scalarTypeToTypeMeta(type));
  made.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
  return made;
}

/// If MKL fills a tensor, the generator's seed is drawn once for a call, whatever its size; else each element is drawn.
bool draws_once_for_all(const Call& call, at::ScalarType type) {
  const auto drawn = [&](std::int64_t elements) {
    auto generator = at::detail::createCPUGenerator(1);
    torch::jit::Stack stack(call.arguments().begin(), call.arguments().end());
    stack.front() = scratch(elements, type);
    stack.back() = generator;
    call.op.redispatchBoxed(call.after, &stack);
    return generator.get<at::CPUGeneratorImpl>()->random();
  };
  static const bool once = drawn(32) == drawn(64);
  return once;
}

}  // namespace

bool draw_aside(const Call& call) {
  const std::string& name = call.traits.name;
  const bool bernoulli = name == "aten::bernoulli_.float";
  if (!bernoulli && name != "aten::normal_" && name != "aten::uniform_") return false;
  const at::Tensor& filled = call.arguments().front().toTensor();
  if (!filled.is_contiguous() || filled.numel() < kPiece || filled.itemsize() > sizeof(double)) return false;
  const UnskippedGuard guard;
  const at::ScalarType type = filled.scalar_type();
  const bool once = bernoulli && draws_once_for_all(call, type);
  std::int64_t left = once ? kLeastPiece : filled.numel();
  at::Tensor piece;
  while (left > 0) {
    std::int64_t elements = std::min(left, kPiece);
    if (left > kPiece && left < kPiece + kLeastPiece) elements = kPiece - kLeastPiece;
    if (!piece.defined() || piece.numel() != elements) piece = scratch(elements, type);
    torch::jit::Stack stack(call.arguments().begin(), call.arguments().end());
    stack.front() = piece;
    call.op.redispatchBoxed(call.after, &stack);
    left -= elements;
  }
  const at::Tensor result = filled;
  call.finish({result});
  return true;
}

}  // namespace tensorpager::dry
