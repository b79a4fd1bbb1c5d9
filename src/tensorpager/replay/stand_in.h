// A call that draws from the default generator, as one of another op that does the same and can be handed a generator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string_view>
#include <vector>

#include "tensorpager/base/config.h"

namespace tensorpager::replay {

struct StandIn {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;  // without a generator: none means the default one
};

/// Whether calls of the op have a stand-in if they draw. `op` as in aten::mm.
bool has_stand_in(std::string_view op, base::Device device);

/// The calls of native_dropout that draw, on CUDA: there both ops are `dropout_cuda`
/// (aten/src/ATen/native/cuda/Dropout.cu), but for the type of the mask. The mask of the stand-in is of bytes, which
/// are those of the bool mask. Returns nullopt for any other call, which is its own.
std::optional<StandIn> stand_in_for(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                                    base::Device device);

}  // namespace tensorpager::replay
