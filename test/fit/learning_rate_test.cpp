#include "tensorpager/fit/learning_rate.h"

#include <gtest/gtest.h>

#include "tensorpager/base/errors.h"

namespace tensorpager::fit {
namespace {

TEST(ReferenceRate, FollowsTheRules) {
  const auto reference = parse_reference_rate("0.1@256");
  ASSERT_TRUE(reference);
  const LearningRate rate = reference->at(1024, std::nullopt);
  EXPECT_EQ(rate.samples, 1024u);
  EXPECT_DOUBLE_EQ(rate.linear, 0.4);
  EXPECT_DOUBLE_EQ(rate.square_root, 0.2);
  EXPECT_FALSE(rate.by_noise);
  const NoiseScale noise{.samples = 512, .low = 500, .high = 520, .steps = 10};
  EXPECT_DOUBLE_EQ(reference->at(1024, noise).by_noise.value(), 0.1 * 3 / 1.5);
}

TEST(ReferenceRate, RefusesOtherTexts) {
  EXPECT_FALSE(parse_reference_rate(""));
  for (const char* const text : {"0.1", "0@256", "0.1@-8", "0.1@256x", "@256"})
    EXPECT_THROW(parse_reference_rate(text), base::InvalidArgument) << text;
}

}  // namespace
}  // namespace tensorpager::fit
