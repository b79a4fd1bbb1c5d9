#include "tensorpager/fake_cuda/card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorpager/base/errors.h"

namespace tensorpager::fake_cuda {
namespace {

TEST(Card, ReadsItsFields) {
  const Card card = parse_card("name=a100-40g devices=2  compute=8.0 multiprocessors=108 memory=42405855232 ");
  const Card expected{.name = "a100-40g",
                      .devices = 2,
                      .compute_major = 8,
                      .compute_minor = 0,
                      .multiprocessors = 108,
                      .memory = 42405855232};
  EXPECT_EQ(card, expected);
  EXPECT_EQ(card.display_name(), "NVIDIA A100-40G (emulated)");
}

TEST(Card, IsAnH100WhereNothingIsSaid) {
  EXPECT_EQ(parse_card(""), Card{});
  EXPECT_EQ(parse_card("devices=8").memory, Card{}.memory);
}

TEST(Card, SaysWhichFieldIsWrongAndWhatToTry) {
  for (const char* text : {"devices=0", "devices=9", "devices=two", "memory=12", "memory=80G", "compute=9",
                           "compute=9.x", "multiprocessors=-1", "speed=3", "h100", "name=", "memory=99999999999999"}) {
    try {
      parse_card(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const base::InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string("TENSORPAGER_CARD: ") + text + " is wrong; try "));
    }
  }
}

}  // namespace
}  // namespace tensorpager::fake_cuda
