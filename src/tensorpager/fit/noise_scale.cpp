#include "tensorpager/fit/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tensorpager/base/errors.h"

namespace tensorpager::fit {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_error(const std::vector<double>& values, double about) {
  double squares = 0;
  for (const double value : values) squares += (value - about) * (value - about);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

}  // namespace

NoiseScale noise_scale(const Gradients& gradients, std::uint64_t size) {
  TENSORPAGER_CHECK(gradients.squares.size() >= 3 && gradients.products.size() + 1 == gradients.squares.size());
  const double square = mean(gradients.squares), product = mean(gradients.products);
  const double error = standard_error(gradients.products, product);
  const auto scale_if = [&](double signal) {
    if (signal <= 0) return std::numeric_limits<double>::infinity();
    return std::max(0.0, static_cast<double>(size) * (square - signal) / signal);
  };
  return {.samples = scale_if(product),
          .low = scale_if(product + error),
          .high = scale_if(product - error),
          .steps = gradients.squares.size()};
}

double rate_by_noise(double rate, double reference, double samples, const NoiseScale& noise) {
  if (std::isinf(noise.samples)) return rate * samples / reference;
  return rate * (1 + noise.samples / reference) / (1 + noise.samples / samples);
}

}  // namespace tensorpager::fit
