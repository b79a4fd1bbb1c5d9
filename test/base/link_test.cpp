#include "tensorpager/base/link.h"

#include <gtest/gtest.h>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

TEST(Link, ReadsOneRateForBothWays) {
  const LinkRates both{.out = Bytes(2'000'000'000), .in = Bytes(2'000'000'000)};
  EXPECT_EQ(parse_link("2GB/s"), both);
  EXPECT_EQ(parse_link("2GB"), both);
}

TEST(Link, ReadsARateForEachWay) {
  const LinkRates each{.out = 512_MiB, .in = 2_GiB};
  EXPECT_EQ(parse_link("512MiB/s/2GiB/s"), each);
  EXPECT_EQ(parse_link("512MiB/2GiB"), each);
  EXPECT_EQ(parse_link("512MiB/2GiB/s"), each);
  EXPECT_EQ(parse_link("unlimited/1MiB/s").out, kUnlimited);
}

TEST(Link, RefusesWhatIsNoRateNamingIt) {
  for (const char* text : {"", "/s", "fast", "0", "50%", "2GB/s/", "2GB/s/s", "1GB/2GB/3GB", "s/2GB"}) {
    try {
      parse_link(text);
      ADD_FAILURE() << "took " << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos) << error.what();
    }
  }
}

TEST(Link, IsAVariable) {
  const Config config = read_config(
      [](const char* name) { return std::string_view(name) == "TENSORPAGER_LINK" ? "1GB/s/3GB/s" : nullptr; });
  EXPECT_EQ(config.link.out, Bytes(1'000'000'000));
  EXPECT_EQ(config.link.in, Bytes(3'000'000'000));
}

TEST(Link, SaysHowFast) {
  EXPECT_EQ(format_link({.out = 2_GiB, .in = 2_GiB}), "2.00 GiB/s");
  EXPECT_EQ(format_link({.out = 2_GiB, .in = kUnlimited}), "2.00 GiB/s out, unlimited in");
}

}  // namespace
}  // namespace tensorpager::base
