#include "tensorpager/fake_cuda/speeds.h"

#include <gtest/gtest.h>

#include <string>

#include "tensorpager/base/errors.h"

namespace tensorpager::fake_cuda {
namespace {

TEST(Speeds, AreReadFromTextAndWhatIsWrongIsNamed) {
  const Speeds speeds = parse_speeds("launch_ns=1000 byte_rate=1e9 in_rate=5e8 convolution.float16=7e9");
  EXPECT_DOUBLE_EQ(speeds.launch, 1e-6);
  EXPECT_DOUBLE_EQ(speeds.in.bytes_per_second, 5e8);
  EXPECT_DOUBLE_EQ(speeds.flop_rates.of(base::OpClass::kConvolution, base::Precision::kFloat16), 7e9);
  for (const std::string wrong : {"byte_rate=0", "byte_rate=", "in_ns=-1", "speed=3", "float32=1e9",
                                  "pooling.float32=1", "product.float8=1", "product.float32=0"}) {
    try {
      parse_speeds("launch_ns=5 " + wrong);
      ADD_FAILURE() << wrong;
    } catch (const base::InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(wrong + " is wrong"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tensorpager::fake_cuda
