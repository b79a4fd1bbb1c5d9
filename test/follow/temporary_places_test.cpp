#include "tensorpager/follow/temporary_places.h"

#include <gtest/gtest.h>

#include <optional>

#include "sized_block.h"

namespace tensorpager::follow {
namespace {

using base::Bytes;
using base::operator""_KiB;
using base::operator""_MiB;

constexpr StorageId kLow{0}, kHigh{1};
constexpr std::uint32_t kMake = 0, kOtherOp = 1;

//              offset  op 0   1
// temporaries       0  |====|
// low          48 KiB  |====|          page-out after 0
// high        128 KiB  |===========|
Agenda agenda_of_rows() {
  return Agenda({.storages = {{.bytes = 16_KiB, .entry = true}, {.bytes = 16_KiB, .entry = true}},
                 .ops = {{.name = "make", .temporary = 48_KiB}, {.name = "other"}}},
                Plan{.budget = 1_MiB,
                     .ops = 2,
                     .rows = {row_of(kTemporary, 48_KiB, 0, 0, 1, Fill::kBorn, Leave::kDies),
                              row_of(kLow, 16_KiB, 48 << 10, 0, 1, Fill::kPageIn, Leave::kPageOut),
                              row_of(kHigh, 16_KiB, 128 << 10, 0, 2, Fill::kBoundary, Leave::kBoundary)}});
}

class TemporaryPlacesTest : public testing::Test {
 protected:
  std::optional<std::uint64_t> place(std::uint32_t op, Bytes size) { return places_.place(op, size, page_outs_); }
  std::optional<std::uint64_t> make(std::uint32_t op, Block& block) {
    const auto at = place(op, block.charged);
    places_.created(block);
    return at;
  }

  const Agenda agenda_ = agenda_of_rows();
  PageOutQueue page_outs_{2};
  TemporaryPlaces places_{agenda_};
  SizedBlock one_{32_KiB}, two_{16_KiB}, three_{16_KiB}, large_{64_KiB};
};

TEST_F(TemporaryPlacesTest, AreGapsOfTheirRow) {
  EXPECT_EQ(make(kMake, one_), 0u);
  EXPECT_EQ(make(kMake, two_), 32u << 10);
  places_.died(one_);
  EXPECT_EQ(make(kMake, three_), 0u);
}

TEST_F(TemporaryPlacesTest, AreElseGapsBetweenAllThatIsResident) {
  EXPECT_EQ(make(kMake, one_), 0u);
  EXPECT_EQ(make(kMake, two_), 32u << 10);
  EXPECT_EQ(make(kMake, large_), 64u << 10) << "above `low`, and it ends where `high` begins";
  EXPECT_EQ(make(kMake, three_), std::nullopt) << "nothing is planned above `high`";
}

TEST_F(TemporaryPlacesTest, AreNotWhereAPageOutIsUnderWay) {
  EXPECT_EQ(place(kOtherOp, 64_KiB), 0u);
  places_.begin_op();
  page_outs_.add({.row = 1, .ticket = 1, .window = 0, .block = nullptr, .number = 0});
  EXPECT_EQ(place(kOtherOp, 64_KiB), 64u << 10);
}

TEST_F(TemporaryPlacesTest, AreFreeAgainWhereNoBlockCame) {
  EXPECT_EQ(place(kMake, 48_KiB), 0u);
  places_.cancel_pending();
  EXPECT_EQ(make(kMake, one_), 0u);
  places_.cancel_pending();
  EXPECT_EQ(make(kMake, two_), 32u << 10);
}

TEST_F(TemporaryPlacesTest, AreFreeAgainWhenTheNextOpBegins) {
  EXPECT_EQ(make(kMake, one_), 0u);
  places_.begin_op();
  EXPECT_EQ(make(kMake, two_), 0u);
}

}  // namespace
}  // namespace tensorpager::follow
