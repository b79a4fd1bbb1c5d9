#include "tensorpager/base/flop_rates.h"

#include <algorithm>

namespace tensorpager::base {
namespace {

template <typename Value, typename Table>
std::optional<Value> named(const Table& table, std::string_view name) {
  const auto row = std::ranges::find(table, name, [](const auto& one) { return one.second; });
  return row == table.end() ? std::nullopt : std::optional<Value>(row->first);
}

template <typename Value, typename Table>
std::string_view name_in(const Table& table, Value value) {
  return std::ranges::find(table, value, [](const auto& one) { return one.first; })->second;
}

}  // namespace

OpClass class_of(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  if (has("conv")) return OpClass::kConvolution;
  if (has("rnn")) return OpClass::kRecurrent;
  if (has("attention")) return OpClass::kAttention;
  return OpClass::kProduct;
}

std::string_view class_name(OpClass op_class) { return name_in(kOpClasses, op_class); }

std::string_view precision_name(Precision precision) { return name_in(kPrecisions, precision); }

std::optional<OpClass> class_named(std::string_view name) { return named<OpClass>(kOpClasses, name); }

std::optional<Precision> precision_named(std::string_view name) { return named<Precision>(kPrecisions, name); }

double FlopRates::of(OpClass op_class, Precision precision) const {
  const Precision otherwise = precision == Precision::kTf32 ? Precision::kFloat32 : precision;
  for (const OpClass candidate : {op_class, OpClass::kProduct}) {
    for (const Precision tried : {precision, otherwise})
      if (const auto rate = rates_.find({candidate, tried}); rate != rates_.end()) return rate->second;
  }
  return 0;
}

}  // namespace tensorpager::base
