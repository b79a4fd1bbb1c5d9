// A state that is kept draws again what the generator drew after it.
#include "tensorpager/replay/generator_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tensorpager::replay {
namespace {

at::Generator seeded(std::uint64_t seed) { return at::detail::createCPUGenerator(seed); }

TEST(GeneratorState, DrawsAgainWhatWasDrawn) {
  const at::Generator generator = seeded(3);
  at::rand({700}, generator);  // past the first numbers of the engine
  const GeneratorState state(generator);
  const at::Tensor drawn = at::randn({1000}, generator);
  EXPECT_TRUE(at::randn({1000}, state.generator()).equal(drawn));
  state.put_into(generator);
  EXPECT_TRUE(at::randn({1000}, generator).equal(drawn));
}

/// Normal numbers are drawn in pairs: the second is kept for the next call.
TEST(GeneratorState, KeepsTheSecondOfAPairOfNormalNumbers) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Generator generator = seeded(3);
    at::randn({1}, generator, type);
    const GeneratorState state(generator);
    const at::Tensor drawn = at::randn({3}, generator, type);
    EXPECT_TRUE(at::randn({3}, state.generator(), type).equal(drawn));
  }
}

TEST(GeneratorState, IsThatOfTheGeneratorUntilItDraws) {
  const at::Generator generator = seeded(3);
  const GeneratorState state(generator);
  EXPECT_TRUE(state == GeneratorState(generator));
  EXPECT_FALSE(state == GeneratorState(seeded(4)));
  at::rand({1}, generator);
  EXPECT_FALSE(state == GeneratorState(generator));
}

}  // namespace
}  // namespace tensorpager::replay
