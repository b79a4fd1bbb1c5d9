#include "tensorpager/replay/stand_in.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tensorpager::replay {
namespace {

using base::Device;

class StandInTest : public testing::Test {
 protected:
  std::optional<StandIn> of_dropout(double p, const c10::IValue& trains, Device device = Device::kCuda) const {
    return stand_in_for(dropout_, std::vector<c10::IValue>{x_, p, trains}, device);
  }

  const at::Tensor x_ = at::ones({4});
  const c10::OperatorHandle dropout_ = c10::Dispatcher::singleton().findSchemaOrThrow("aten::native_dropout", "");
};

TEST_F(StandInTest, OfDropoutIsToldWhatToKeepAndTakesAGenerator) {
  for (const c10::IValue& trains : {c10::IValue(true), c10::IValue()}) {
    const auto found = of_dropout(0.25, trains);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->op.schema().name(), "aten::_fused_dropout");
    ASSERT_EQ(found->arguments.size(), found->op.schema().arguments().size());
    EXPECT_TRUE(found->arguments[0].toTensor().is_same(x_));
    EXPECT_EQ(found->arguments[1].toDouble(), 0.75);
    EXPECT_TRUE(found->arguments[2].isNone());
    EXPECT_EQ(found->op.schema().arguments()[2].name(), "generator");
  }
}

TEST_F(StandInTest, IsNotForCallsThatDrawNothing) {
  EXPECT_FALSE(of_dropout(0.25, false));
  EXPECT_FALSE(of_dropout(1, true));
}

TEST_F(StandInTest, IsForCudaAndForThatOpOnly) {
  EXPECT_FALSE(of_dropout(0.25, true, Device::kHost));
  EXPECT_FALSE(has_stand_in("aten::native_dropout", Device::kHost));
  const c10::OperatorHandle relu = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "");
  EXPECT_FALSE(stand_in_for(relu, std::vector<c10::IValue>{x_}, Device::kCuda));
}

}  // namespace
}  // namespace tensorpager::replay
