#include "tensorpager/arena/region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "granules.h"

namespace tensorpager::arena {
namespace {

using base::Bytes;

/// A region of 10 granules with pieces at the given places.
Region region_with(std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> pieces) {
  Region region(kGranule);
  region.set_limit(units(10));
  for (const auto& [begin, size] : pieces) region.take(at(begin), units(size));
  return region;
}

/// All pieces can go, for their size; those listed cannot.
Region::Cost all_but(std::vector<std::uint64_t> fixed) {
  return [fixed](std::uint64_t offset, Bytes size) -> std::optional<double> {
    for (const std::uint64_t one : fixed)
      if (offset == at(one)) return std::nullopt;
    return static_cast<double>(size.count());
  };
}

TEST(Region, FillsTheSmallestGapFromItsHighEnd) {
  // ..AA...BB.
  const Region region = region_with({{2, 2}, {7, 2}});
  EXPECT_EQ(region.find_gap(units(1)), at(9));
  EXPECT_EQ(region.find_gap(units(2)), at(0));
  EXPECT_EQ(region.find_gap(units(3)), at(4));
  EXPECT_EQ(region.find_gap(units(4)), std::nullopt);
}

TEST(Region, FindsTheHighestPlaceWithinBounds) {
  // ..AA...BB.
  const Region region = region_with({{2, 2}, {7, 2}});
  EXPECT_EQ(region.find_gap_within(0, at(10), units(1)), at(9));
  EXPECT_EQ(region.find_gap_within(0, at(10), units(2)), at(5));
  EXPECT_EQ(region.find_gap_within(0, at(6), units(2)), at(4));
  EXPECT_EQ(region.find_gap_within(0, at(5), units(2)), at(0));
  EXPECT_EQ(region.find_gap_within(at(1), at(5), units(2)), std::nullopt);
  EXPECT_EQ(region.find_gap_within(at(5), at(7), units(2)), at(5));
  EXPECT_EQ(region.find_gap_within(0, at(10), units(4)), std::nullopt);
}

TEST(Region, NamesWhatIsTakenOfARange) {
  // ..AA...BB.
  const Region region = region_with({{2, 2}, {7, 2}});
  EXPECT_EQ(region.pieces_in(at(0), units(10)), (Pieces{at(2), at(7)}));
  EXPECT_EQ(region.pieces_in(at(3), units(1)), Pieces{at(2)});
  EXPECT_EQ(region.pieces_in(at(3), units(5)), (Pieces{at(2), at(7)}));
  EXPECT_EQ(region.pieces_in(at(4), units(3)), Pieces());
  EXPECT_EQ(region.pieces_in(at(0), units(2)), Pieces());
}

TEST(Region, JoinsGapsOfNeighbours) {
  Region region = region_with({{0, 3}, {3, 4}, {7, 3}});
  region.give_back(at(0));
  region.give_back(at(7));
  EXPECT_FALSE(region.has_gap(units(4)));
  region.give_back(at(3));
  EXPECT_TRUE(region.has_gap(units(10)));
  EXPECT_EQ(region.taken(), Bytes(0));
}

TEST(Region, RemovesTheCheapestRunOfNeighbours) {
  // AABBB.CCDD: removing C and the gap beside it (2 granules) makes room for 3; AA and one of BBB would cost 5.
  const Region region = region_with({{0, 2}, {2, 3}, {6, 2}, {8, 2}});
  const auto run = region.cheapest_run(units(3), Fit::kCheapest, all_but({}));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->offset, at(5));
  EXPECT_EQ(run->to_remove, std::vector<std::uint64_t>{at(6)});
}

TEST(Region, PlacesWhatIsFixedBesideWhatIsFixed) {
  // The cheapest place for 2 is the gap in the middle, but it would leave no run of 5: A.B..CDDDD with A fixed.
  const Region region = region_with({{0, 1}, {2, 1}, {5, 1}, {6, 4}});
  const auto anywhere = region.cheapest_run(units(2), Fit::kCheapest, all_but({0}));
  ASSERT_TRUE(anywhere.has_value());
  EXPECT_EQ(anywhere->offset, at(3));
  const auto beside = region.cheapest_run(units(2), Fit::kBesideFixed, all_but({0}));
  ASSERT_TRUE(beside.has_value());
  EXPECT_EQ(beside->offset, at(1));
  EXPECT_EQ(beside->to_remove, std::vector<std::uint64_t>{at(2)});
}

TEST(Region, SaysThatNoRunWillDo) {
  // ....A.....: 5 on the right of what is fixed, 4 on its left.
  const Region region = region_with({{4, 1}});
  EXPECT_FALSE(region.cheapest_run(units(6), Fit::kCheapest, all_but({4})).has_value());
  EXPECT_EQ(region.largest_run(all_but({4})), units(5));
}

TEST(Region, KeepsTheLowEndForThoseThatArePutThere) {
  Region region = region_with({});
  region.keep_low(at(2));
  EXPECT_EQ(region.find_gap(units(8)), at(2));
  EXPECT_FALSE(region.has_gap(units(9)));
  EXPECT_EQ(region.find_gap(units(9)), at(1));  // where there is no other gap
  region.keep_low(at(2), at(2));
  EXPECT_EQ(region.find_gap(units(9)), std::nullopt);
  EXPECT_EQ(region.cheapest_run(units(9), Fit::kCheapest, all_but({})).value().offset, at(1));
}

TEST(Region, GathersMovablePiecesAtTheLowEndOfTheirRun) {
  // .A.RBF.C..: A, B, C movable, R removable, F fixed.
  Region region = region_with({{1, 1}, {3, 1}, {4, 1}, {5, 1}, {7, 1}});
  const auto kind = [](std::uint64_t offset) {
    if (offset == at(5)) return Region::Piece::kFixed;
    return offset == at(3) ? Region::Piece::kRemovable : Region::Piece::kMovable;
  };
  const Region::Compaction compaction = region.compaction(kind);
  EXPECT_TRUE(compaction.to_remove.empty());  // R is not where A and B go
  EXPECT_EQ(compaction.largest_run, units(3));
  for (const Region::Slide& slide : compaction.slides) region.slide(slide);
  // AB.R.FC...
  EXPECT_FALSE(region.has_gap(units(4)));
  region.give_back(at(3));
  EXPECT_EQ(region.find_gap(units(3)), at(2));
  region.give_back(at(0));
  region.give_back(at(1));
  region.give_back(at(6));
}

TEST(Region, ListsWhatReachesBeyondALoweredLimit) {
  Region region = region_with({{0, 2}, {6, 3}});
  region.set_limit(units(7));
  EXPECT_EQ(region.beyond_limit(), std::vector<std::uint64_t>{at(6)});
  region.give_back(at(6));
  EXPECT_FALSE(region.has_gap(units(6)));
  EXPECT_TRUE(region.has_gap(units(5)));
}

/// Against a plain array of granules: pieces never overlap, gaps are found if and only if they are there, and a run
/// that is emptied holds what it was emptied for. With odd seeds a gap is asked for after hundreds of changes only.
TEST(Region, AgreesWithAnArrayOnRandomPrograms) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    constexpr std::uint64_t kUnits = 40;
    Region region(kGranule);
    region.set_limit(units(kUnits));
    std::vector<bool> taken(kUnits);
    std::map<std::uint64_t, std::uint64_t> pieces;
    const auto mark = [&](std::uint64_t begin, std::uint64_t size, bool value) {
      for (std::uint64_t i = begin; i < begin + size; ++i) {
        ASSERT_NE(taken[i], value);
        taken[i] = value;
      }
    };
    const auto put_anywhere_and_give_back = [&] {
      for (std::uint64_t i = random() % kUnits;; i = (i + 1) % kUnits) {
        if (taken[i]) continue;
        region.take(at(i), units(1));
        region.give_back(at(i));
        return;
      }
    };
    for (int step = 0; step < 200; ++step) {
      const std::uint64_t size = 1 + random() % 8;
      const bool is_full = std::ranges::find(taken, false) == taken.end();
      for (int change = 0; seed % 2 == 1 && step % 20 == 0 && !is_full && change < 300; ++change)
        put_anywhere_and_give_back();
      std::uint64_t longest = 0, length = 0;
      for (const bool unit : taken) longest = std::max(longest, length = unit ? 0 : length + 1);
      EXPECT_EQ(region.has_gap(units(size)), longest >= size);
      auto place = region.find_gap(units(size));
      EXPECT_EQ(place.has_value(), longest >= size);
      if (!place) {
        const auto run = region.cheapest_run(units(size), Fit::kCheapest, all_but({}));
        ASSERT_TRUE(run.has_value());
        for (const std::uint64_t offset : run->to_remove) {
          mark(offset / at(1), pieces.at(offset), false);
          pieces.erase(offset);
          region.give_back(offset);
        }
        place = run->offset;
      }
      region.take(*place, units(size));
      mark(*place / at(1), size, true);
      pieces[*place] = size;
      if (random() % 3 == 0) {
        const auto victim = std::next(pieces.begin(), static_cast<std::ptrdiff_t>(random() % pieces.size()));
        mark(victim->first / at(1), victim->second, false);
        region.give_back(victim->first);
        pieces.erase(victim);
      }
    }
  }
}

}  // namespace
}  // namespace tensorpager::arena
