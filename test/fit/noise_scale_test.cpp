#include "tensorpager/fit/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tensorpager::fit {
namespace {

/// Steps of `size` samples whose gradients are (3, 4, 0, ..., 0) plus noise of the variance in each of 100 parameters.
Gradients noisy_steps(std::uint64_t size, double variance, std::size_t steps) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, std::sqrt(variance / static_cast<double>(size)));
  Gradients gradients;
  std::vector<double> before;
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<double> gradient(100);
    for (double& value : gradient) value = noise(random);
    gradient[0] += 3;
    gradient[1] += 4;
    double square = 0, product = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      square += gradient[i] * gradient[i];
      if (step > 0) product += gradient[i] * before[i];
    }
    gradients.squares.push_back(square);
    if (step > 0) gradients.products.push_back(product);
    before = gradient;
  }
  return gradients;
}

TEST(NoiseScale, IsTheVarianceOverTheSquareOfTheGradientWhateverTheSizeOfTheSteps) {
  // tr(S) = 100 * 50, |G|^2 = 25
  for (const std::uint64_t size : {8, 64, 512}) {
    SCOPED_TRACE(size);
    const NoiseScale found = noise_scale(noisy_steps(size, 50, 400), size);
    EXPECT_NEAR(found.samples, 200, 20);
    EXPECT_LT(found.low, found.samples);
    EXPECT_GT(found.high, found.samples);
    EXPECT_EQ(found.steps, 400u);
  }
}

TEST(NoiseScale, IsLessCertainFromFewSteps) {
  const NoiseScale few = noise_scale(noisy_steps(64, 50, 6), 64), many = noise_scale(noisy_steps(64, 50, 200), 64);
  EXPECT_GT(few.high - few.low, 2 * (many.high - many.low));
}

TEST(NoiseScale, IsUnboundedWhereTheNoiseHidesTheGradient) {
  const NoiseScale found = noise_scale({.squares = {4, 4, 4}, .products = {-1, 0.5}}, 16);
  EXPECT_TRUE(std::isinf(found.samples));
  EXPECT_TRUE(std::isinf(found.high));
  EXPECT_NEAR(found.low, 16 * (4 - 0.5) / 0.5, 1e-9) << "the mean product is -0.25, with an error of 0.75";
}

TEST(RateByNoise, IsLinearForSmallStepsAndBoundForLargeOnes) {
  const NoiseScale noise{.samples = 1000, .low = 900, .high = 1100, .steps = 10};
  EXPECT_NEAR(rate_by_noise(0.1, 1, 2, noise), 0.2, 0.001);
  EXPECT_NEAR(rate_by_noise(0.1, 1000, 1e9, noise), 0.2, 0.001) << "half of what is best for very large steps";
  EXPECT_DOUBLE_EQ(rate_by_noise(0.1, 256, 256, noise), 0.1);
  EXPECT_DOUBLE_EQ(rate_by_noise(0.1, 1, 8, {.samples = INFINITY, .low = 1, .high = INFINITY, .steps = 3}), 0.8);
}

}  // namespace
}  // namespace tensorpager::fit
