// How much an op works, for the rooflines of machines: bytes of its arguments, and arithmetic where a formula is known.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/pager/block.h"

namespace tensorpager::intercept {

/// The ops whose arithmetic counts beside the bytes that they move.
enum class Arithmetic : std::uint8_t { kNone, kMatrices, kAddedMatrices, kBatches, kConvolution, kConvolutionBackward };

/// `name` as in aten::mm.
Arithmetic arithmetic_of(std::string_view name);

/// Of one call: multiplications and additions. `arguments` may be empty for the products of matrices; 0 where sizes are
/// not known.
std::uint64_t flops_of(Arithmetic arithmetic, c10::ArrayRef<at::TensorBase> tensors,
                       c10::ArrayRef<c10::IValue> arguments);

/// Bytes that an op reads or writes of a tensor in this block: those of a view, not of all its storage.
base::Bytes moved_of(const at::TensorBase& tensor, const pager::Block& block);

/// In which the tensor's arithmetic is done; float32 for what is none of these.
base::Precision precision_of(const at::TensorBase& tensor);

}  // namespace tensorpager::intercept
