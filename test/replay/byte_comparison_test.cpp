#include "tensorpager/replay/byte_comparison.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tensorpager::replay {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(ByteComparison, FindsNothingInEqualBytes) {
  EXPECT_EQ(compare_bytes(bytes("abc"), bytes("abc"), bytes("abc")), std::nullopt);
  EXPECT_EQ(compare_bytes({}, {}, {}), std::nullopt);
}

TEST(ByteComparison, IgnoresBytesThatKeptBothFills) {
  EXPECT_EQ(compare_bytes(bytes("abc"),
                          bytes("a\xFF"
                                "c"),
                          bytes("a\x55"
                                "c")),
            std::nullopt);
}

TEST(ByteComparison, CountsBytesThatTheReplaysAgreeOn) {
  const ByteDifference expected{.bytes = 2, .first = 1, .unstable = 0};
  EXPECT_EQ(compare_bytes(bytes("abcd"), bytes("axcy"), bytes("axcy")), expected);
}

TEST(ByteComparison, CountsBytesInWhichOnlyOneReplayDiffers) {
  const ByteDifference expected{.bytes = 1, .first = 2, .unstable = 1};
  EXPECT_EQ(compare_bytes(bytes("abcd"), bytes("abcd"), bytes("abxd")), expected);
  EXPECT_EQ(compare_bytes(bytes("abcd"), bytes("abxd"), bytes("abcd")), expected);
}

TEST(ByteComparison, DoesNotTakeOneFillForAnUndefinedByte) {
  const ByteDifference expected{.bytes = 1, .first = 0, .unstable = 1};
  EXPECT_EQ(compare_bytes(bytes("a"), bytes("\xFF"), bytes("a")), expected);
  EXPECT_EQ(compare_bytes(bytes("a"), bytes("a"), bytes("\x55")), expected);
}

}  // namespace
}  // namespace tensorpager::replay
