#include "tensorpager/replay/stand_in.h"

namespace tensorpager::replay {

std::optional<StandIn> stand_in_for(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                                    base::Device device) {
  if (device != base::Device::kCuda || op.schema().name() != "aten::native_dropout") return std::nullopt;
  const double p = arguments[1].toDouble();
  const bool trains = arguments[2].isNone() || arguments[2].toBool();
  if (!trains || p == 1) return std::nullopt;  // draws nothing
  static const c10::OperatorHandle fused = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_fused_dropout", "");
  return StandIn{fused, {arguments[0], 1 - p, c10::IValue()}};
}

}  // namespace tensorpager::replay
