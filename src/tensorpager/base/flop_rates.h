// How fast a machine does arithmetic: a rate for each class of ops and each precision.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "tensorpager/base/event_sink.h"

namespace tensorpager::base {

/// Kernels whose shares of a card's peak differ.
enum class OpClass : std::uint8_t { kProduct, kConvolution, kAttention, kRecurrent };

inline constexpr std::array kOpClasses = {
    std::pair{OpClass::kProduct, std::string_view("product")},
    std::pair{OpClass::kConvolution, std::string_view("convolution")},
    std::pair{OpClass::kAttention, std::string_view("attention")},
    std::pair{OpClass::kRecurrent, std::string_view("recurrent")},
};

inline constexpr std::array kPrecisions = {
    std::pair{Precision::kFloat32, std::string_view("float32")},
    std::pair{Precision::kTf32, std::string_view("tf32")},
    std::pair{Precision::kBfloat16, std::string_view("bfloat16")},
    std::pair{Precision::kFloat16, std::string_view("float16")},
    std::pair{Precision::kFloat64, std::string_view("float64")},
};

/// Of an op that does arithmetic, as aten::mm. Ops of no other class are products.
OpClass class_of(std::string_view op);

std::string_view class_name(OpClass op_class);
std::string_view precision_name(Precision precision);
/// Returns nullopt if nothing is called so.
std::optional<OpClass> class_named(std::string_view name);
std::optional<Precision> precision_named(std::string_view name);

/// Flops per second that ops reach.
class FlopRates {
 public:
  void set(OpClass op_class, Precision precision, double rate) { rates_[{op_class, precision}] = rate; }
  /// The rate that applies: a class without one has that of products, TF32 without one that of float32. Returns 0 if
  /// none is known.
  double of(OpClass op_class, Precision precision) const;
  /// The rates that were set, by class and precision.
  const std::map<std::pair<OpClass, Precision>, double>& all() const { return rates_; }

 private:
  std::map<std::pair<OpClass, Precision>, double> rates_;
};

}  // namespace tensorpager::base
