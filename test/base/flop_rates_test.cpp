#include "tensorpager/base/flop_rates.h"

#include <gtest/gtest.h>

namespace tensorpager::base {
namespace {

TEST(OpClasses, AreFoundByTheNamesOfOps) {
  EXPECT_EQ(class_of("aten::cudnn_convolution"), OpClass::kConvolution);
  EXPECT_EQ(class_of("aten::convolution_backward"), OpClass::kConvolution);
  EXPECT_EQ(class_of("aten::_cudnn_rnn_backward"), OpClass::kRecurrent);
  EXPECT_EQ(class_of("aten::_scaled_dot_product_flash_attention"), OpClass::kAttention);
  EXPECT_EQ(class_of("aten::addmm"), OpClass::kProduct);
  for (const auto& [op_class, name] : kOpClasses) EXPECT_EQ(class_named(class_name(op_class)), op_class) << name;
  EXPECT_EQ(class_named("pooling"), std::nullopt);
  for (const auto& [precision, name] : kPrecisions) EXPECT_EQ(precision_named(precision_name(precision)), precision);
  EXPECT_EQ(precision_named("float8"), std::nullopt);
}

TEST(FlopRates, OfAClassWithoutOneAreThoseOfProducts) {
  FlopRates rates;
  EXPECT_EQ(rates.of(OpClass::kProduct, Precision::kFloat32), 0);
  rates.set(OpClass::kProduct, Precision::kFloat32, 1);
  rates.set(OpClass::kProduct, Precision::kTf32, 2);
  EXPECT_EQ(rates.of(OpClass::kAttention, Precision::kFloat32), 1);
  EXPECT_EQ(rates.of(OpClass::kAttention, Precision::kTf32), 2);
  EXPECT_EQ(rates.of(OpClass::kAttention, Precision::kFloat16), 0);
  rates.set(OpClass::kAttention, Precision::kFloat32, 3);
  EXPECT_EQ(rates.of(OpClass::kAttention, Precision::kTf32), 3) << "of the class before that of products";
}

}  // namespace
}  // namespace tensorpager::base
