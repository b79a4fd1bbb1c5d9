#include "tensorpager/pager/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tensorpager::pager {
namespace {

using base::Bytes;
using BlockList = std::vector<Block*>;

constexpr Bytes kGranule{16};

Bytes units(std::uint64_t n) { return Bytes(n * kGranule.count()); }
Place place(std::uint64_t begin, std::uint64_t size) { return {begin * kGranule.count(), units(size)}; }

/// An arena of ten granules.
class PlacesTest : public testing::Test {
 protected:
  PlacesTest() { places_.set_limit(units(10)); }

  void put(Block& block, std::uint64_t begin, std::uint64_t size) {
    block.charged = units(size);
    places_.take(place(begin, size), block);
  }
  Places::Found find(std::uint64_t size) const { return places_.find({.bytes = units(size)}, kNow); }
  BlockList find_to_evict(std::uint64_t size) const { return std::get<Places::ToEvict>(find(size)).blocks; }

  static constexpr std::uint64_t kNow = 10;
  Places places_{kGranule, base::kUnlimited};
  Block a_, b_;
};

TEST_F(PlacesTest, AQueryTakesNoPlace) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(std::get<Place>(find(4)), place(6, 4));
  put(a_, 6, 4);
  EXPECT_EQ(std::get<Place>(find(4)), place(2, 4));
  EXPECT_EQ(Places::place_of(a_), place(6, 4));
}

TEST_F(PlacesTest, EvictsTheBlockThatWasNotUsedForLongest) {
  put(a_, 0, 5), put(b_, 5, 5);
  a_.last_use = 9, b_.last_use = 3;
  EXPECT_EQ(find_to_evict(5), BlockList{&b_});
  a_.last_use = 3, b_.last_use = 9;
  EXPECT_EQ(find_to_evict(5), BlockList{&a_});
}

TEST_F(PlacesTest, EvictsNoBlockThatIsPinnedAbsentOrUnclaimed) {
  put(a_, 0, 5), put(b_, 5, 5);
  for (const std::uint64_t word : {kPin, kExport, kAbsent, kUnclaimed}) {
    a_.word = word;
    EXPECT_EQ(find_to_evict(5), BlockList{&b_});
    EXPECT_EQ(std::get<NoRoom>(find(6)).largest_run, units(5));
    EXPECT_EQ(places_.to_clear({.offset = units(5).count(), .bytes = units(5)}), std::nullopt);
  }
}

TEST_F(PlacesTest, HasABlockThatIsLeavingGoForTheNext) {
  put(a_, 0, 5), put(b_, 5, 5);
  a_.word = kPin;
  b_.word = kAbsent;
  b_.residence = Residence::kLeaving;
  EXPECT_EQ(find_to_evict(5), BlockList{&b_});
}

TEST_F(PlacesTest, LeavesAPlaceInUseToARecordThatIsNotEvicted) {
  put(a_, 0, 5), put(b_, 5, 5);
  Block old;
  old.charged = a_.charged;
  places_.leave_to(old, a_);
  EXPECT_FALSE(Places::has(a_));
  EXPECT_EQ(Places::place_of(old), place(0, 5));
  EXPECT_TRUE(std::holds_alternative<NoRoom>(find(6)));
  places_.give_back(old);
  EXPECT_EQ(std::get<Place>(find(5)), place(0, 5));
}

TEST_F(PlacesTest, KnowsABlockWhereItWasMovedTo) {
  put(a_, 2, 3), put(b_, 7, 3);
  EXPECT_FALSE(places_.can_move(a_, place(5, 3)));
  ASSERT_TRUE(places_.can_move(a_, place(4, 3)));
  places_.move(a_, place(4, 3));
  EXPECT_EQ(Places::place_of(a_), place(4, 3));
  EXPECT_EQ(places_.to_clear({.offset = units(3).count(), .bytes = units(3)}), BlockList{&a_});
}

// .AA..BBB..: A is the op's, and may be moved.
TEST_F(PlacesTest, GathersMovableBlocksBetweenThoseThatStay) {
  put(a_, 1, 2), put(b_, 5, 3);
  b_.word = kPin;
  const BlockList movable = {&a_};
  const Places::Gathering gathering = places_.plan_gathering(movable);
  EXPECT_TRUE(gathering.to_evict.empty());
  EXPECT_EQ(gathering.largest_run, units(3));
  ASSERT_EQ(gathering.moves.size(), 1u);
  EXPECT_EQ(gathering.moves[0].block, &a_);
  EXPECT_EQ(gathering.moves[0].to, place(0, 2));
}

TEST_F(PlacesTest, NamesTheBlocksBeyondALoweredLimit) {
  put(a_, 0, 5), put(b_, 6, 3);
  EXPECT_EQ(places_.set_limit(units(8)), BlockList{&b_});
  EXPECT_TRUE(places_.set_limit(units(9)).empty());
}

}  // namespace
}  // namespace tensorpager::pager
