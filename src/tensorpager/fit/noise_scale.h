// The gradient noise scale: up to about which size of a step larger ones get farther in proportion (McCandlish et al.
// 2018, "An Empirical Model of Large-Batch Training", section 2.2).
#pragma once

#include <cstdint>
#include <vector>

namespace tensorpager::fit {

/// Of consecutive steps of one size, over all parameters.
struct Gradients {
  std::vector<double> squares;   // |g|^2 of each step
  std::vector<double> products;  // g of each step times g of the one before; one fewer
};

/// tr(S) / |G|^2 of the covariance S of the gradients of single samples and the expected gradient G, in samples.
struct NoiseScale {
  double samples = 0;   // infinity if the noise hides the gradient
  double low = 0;       // within one standard error
  double high = 0;      // ditto; infinity if the noise may hide the gradient
  std::uint64_t steps;  // that it was estimated from
};

/// Steps that follow each other have nearly the same parameters and other samples, so that E[|g|^2] = |G|^2 + tr(S) /
/// size, and E[g g'] = |G|^2. What the parameters move meanwhile counts as noise. At least 3 steps.
NoiseScale noise_scale(const Gradients& gradients, std::uint64_t size);

/// The learning rate that is best for `samples` a step if `rate` is for `reference`: the rate grows as
/// 1 / (1 + noise / samples) (ibid., equation 2.10).
double rate_by_noise(double rate, double reference, double samples, const NoiseScale& noise);

}  // namespace tensorpager::fit
