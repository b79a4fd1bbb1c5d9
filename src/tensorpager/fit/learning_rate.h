// The learning rate for steps of another size, by the rules that are in use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensorpager/fit/noise_scale.h"

namespace tensorpager::fit {

/// By the rules of Goyal et al. 2017 (linear, with a warm-up of some epochs) and Krizhevsky 2014 (square root; for Adam
/// Malladi et al. 2022), and by the gradient noise scale (McCandlish et al. 2018).
struct LearningRate {
  std::uint64_t samples;  // of a step, on all ranks
  double linear, square_root;
  std::optional<double> by_noise;  // nullopt: the gradient noise scale is not known
};

/// A learning rate that is good for some number of samples.
struct ReferenceRate {
  double rate;
  std::uint64_t samples;

  LearningRate at(std::uint64_t others, const std::optional<NoiseScale>& noise) const;
};

/// Reads `0.1@256`. Returns nullopt if there is no text. Throws InvalidArgument for a wrong one.
std::optional<ReferenceRate> parse_reference_rate(const std::string& text);

}  // namespace tensorpager::fit
