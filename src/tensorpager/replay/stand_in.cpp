#include "tensorpager/replay/stand_in.h"

namespace tensorpager::replay {
namespace {

/// A later torch may not have it any more.
const std::optional<c10::OperatorHandle>& fused_dropout() {
  static const auto found = c10::Dispatcher::singleton().findSchema({"aten::_fused_dropout", ""});
  return found;
}

}  // namespace

bool has_stand_in(std::string_view op, base::Device device) {
  return device == base::Device::kCuda && op == "aten::native_dropout" && fused_dropout().has_value();
}

std::optional<StandIn> stand_in_for(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                                    base::Device device) {
  if (!has_stand_in(op.schema().name(), device)) return std::nullopt;
  const double p = arguments[1].toDouble();
  const bool trains = arguments[2].isNone() || arguments[2].toBool();
  if (!trains || p == 1) return std::nullopt;  // draws nothing
  return StandIn{*fused_dropout(), {arguments[0], 1 - p, c10::IValue()}};
}

}  // namespace tensorpager::replay
