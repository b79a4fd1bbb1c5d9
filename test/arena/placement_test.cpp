#include "tensorpager/arena/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "granules.h"

namespace tensorpager::arena {
namespace {

using base::Bytes;

Place place(std::uint64_t begin, std::uint64_t size) { return {at(begin), units(size)}; }

/// An arena of ten granules, of which no reserve is a whole one, with pieces that were not used for one op.
class PlacementTest : public testing::Test {
 protected:
  PlacementTest() { placement_.set_limit(units(10)); }

  /// Takes a dirty piece.
  void take(std::uint64_t begin, std::uint64_t size) {
    placement_.take(place(begin, size));
    pieces_[at(begin)] = {.is_clean = false, .unused_ops = 1};
  }
  void fix(std::uint64_t begin) { pieces_.erase(at(begin)); }
  Found find(const Wanted& wanted) const { return placement_.find(wanted, evictability_); }
  Place find_free(const Wanted& wanted) const { return std::get<Place>(find(wanted)); }
  Pieces find_to_evict(const Wanted& wanted) const { return std::get<ToEvict>(find(wanted)).pieces; }

  Placement placement_{kGranule};
  std::map<std::uint64_t, Placement::Evictable> pieces_;
  Placement::Evictability evictability_ = [this](std::uint64_t offset) -> std::optional<Placement::Evictable> {
    const auto piece = pieces_.find(offset);
    return piece != pieces_.end() ? std::optional(piece->second) : std::nullopt;
  };
};

TEST_F(PlacementTest, CountsPlannedOffsetsFromTheHighEnd) {
  EXPECT_EQ(find_free({.bytes = units(3), .at = at(0)}), place(7, 3));
  EXPECT_EQ(find_free({.bytes = units(3), .at = at(2)}), place(5, 3));
  EXPECT_EQ(placement_.planned(at(7), units(3)), place(0, 3));
  EXPECT_EQ(placement_.planned(at(8), units(3)), std::nullopt);
}

// ...AA.BBBB: the planned place reaches over A.
TEST_F(PlacementTest, ClearsAPlannedPlaceThoughThereAreGapsElsewhere) {
  take(3, 2), take(6, 4);
  const auto found = std::get<ToEvict>(find({.bytes = units(2), .at = at(4)}));
  EXPECT_EQ(found.place, place(4, 2));
  EXPECT_EQ(found.pieces, Pieces{at(3)});
}

TEST_F(PlacementTest, PlacesAPieceElsewhereIfItsPlannedPlaceCannotBeCleared) {
  take(3, 2), take(6, 4);
  fix(3);
  EXPECT_EQ(find_free({.bytes = units(2), .at = at(4)}), place(1, 2));
  EXPECT_EQ(placement_.to_clear(place(4, 2), evictability_), std::nullopt);
}

TEST_F(PlacementTest, AQueryChangesNothing) {
  take(3, 2), take(6, 4);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(find_free({.bytes = units(1)}), place(5, 1));
    EXPECT_EQ(find_to_evict({.bytes = units(4), .keep_whole = units(2)}), Pieces{at(3)});
    EXPECT_EQ(find_free({.bytes = units(2), .keep_whole = units(1)}), place(1, 2));
  }
}

// .......|PPP: three granules are kept for plans.
TEST_F(PlacementTest, KeepsTheHighEndForPlansWhileThereIsRoomElsewhere) {
  placement_.keep_for_plans(units(3));
  EXPECT_EQ(find_free({.bytes = units(2)}), place(5, 2));
  take(0, 6);
  EXPECT_EQ(find_free({.bytes = units(1)}), place(6, 1));
  EXPECT_EQ(find_free({.bytes = units(2)}), place(8, 2));
}

// ...A..B...: the smallest gap is between A and B, where a piece that stays would part the arena.
TEST_F(PlacementTest, DoesNotPartTheRoomForWhatTheOpCreatesNext) {
  take(3, 1), take(6, 1);
  EXPECT_EQ(find_free({.bytes = units(2)}), place(4, 2));
  EXPECT_EQ(find_free({.bytes = units(2), .keep_whole = units(3)}), place(4, 2)) << "another gap holds three";
  EXPECT_EQ(find_free({.bytes = units(2), .keep_whole = units(4)}), place(0, 2));
}

// AABCDEEEEE, A and E fixed: in place of C the new piece would leave B and D apart.
TEST_F(PlacementTest, PlacesAPieceBesideAFixedOneIfTheOpCreatesMore) {
  take(0, 2), take(2, 1), take(3, 1), take(4, 1), take(5, 5);
  fix(0), fix(5);
  pieces_[at(3)].unused_ops = 9;  // the cheapest
  EXPECT_EQ(find_to_evict({.bytes = units(1)}), Pieces{at(3)});
  EXPECT_EQ(find_to_evict({.bytes = units(1), .keep_whole = units(2)}), Pieces{at(2)});
}

TEST_F(PlacementTest, EvictsADirtyPieceBeforeACleanOneIfItWasUnusedForMoreThanTwiceAsLong) {
  for (const std::uint64_t unused_ops : {3, 5, 8, 11}) {
    Placement placement(kGranule);
    placement.set_limit(units(2));
    placement.take(place(0, 1)), placement.take(place(1, 1));
    pieces_[at(0)] = {.is_clean = false, .unused_ops = unused_ops};
    pieces_[at(1)] = {.is_clean = true, .unused_ops = 3};
    const auto found = std::get<ToEvict>(placement.find({.bytes = units(1)}, evictability_));
    EXPECT_EQ(found.pieces, Pieces{unused_ops + 1 > 2 * 4 ? at(0) : at(1)}) << unused_ops;
  }
}

TEST_F(PlacementTest, SaysTheLargestRunIfThereIsNoRoom) {
  take(4, 1), take(7, 1);
  fix(4);
  EXPECT_EQ(std::get<NoRoom>(find({.bytes = units(6)})).largest_run, units(5));
  EXPECT_EQ(placement_.largest_run(evictability_), units(5));
}

TEST_F(PlacementTest, PutsSlabsAtTheLowEndThoughThereAreGapsAbove) {
  take(0, 3);
  const auto found = std::get<ToEvict>(find({.bytes = units(2), .is_slab = true}));
  EXPECT_EQ(found.place, place(0, 2));
  EXPECT_EQ(found.pieces, Pieces{at(0)});
  fix(0);
  EXPECT_EQ(find_free({.bytes = units(2), .is_slab = true}), place(4, 2));
  EXPECT_TRUE(std::holds_alternative<NoRoom>(find({.bytes = units(6), .is_slab = true})));
}

/// An arena of 100 MiB, of which 2 % are reserved.
TEST(Placement, KeepsAReserveBesideTheSlabsForMoreOfThem) {
  constexpr Bytes kMiB{std::uint64_t{1} << 20};
  Placement placement(kGranule);
  placement.set_limit(Bytes(100 * kMiB.count()));
  const Placement::Evictability none = [](std::uint64_t) { return std::nullopt; };
  const auto find = [&](std::uint64_t mib) {
    return std::get<Place>(placement.find({.bytes = Bytes(mib * kMiB.count())}, none)).offset / kMiB.count();
  };
  EXPECT_TRUE(placement.has_gap(Bytes(98 * kMiB.count())));
  EXPECT_FALSE(placement.has_gap(Bytes(99 * kMiB.count())));
  placement.take_for_slab({0, kMiB});
  EXPECT_FALSE(placement.has_gap(Bytes(98 * kMiB.count())));
  EXPECT_EQ(find(97), 3u);
  EXPECT_EQ(find(98), 2u) << "where there is no other place";
}

// ...BBBBBBB: a quarter of the arena at most is kept for what is expected, and a little more.
TEST_F(PlacementTest, EvictsPiecesBeforeItTakesTheRoomOfExpectedSlabs) {
  placement_.expect_slabs(units(5));
  take(3, 7);
  EXPECT_EQ(std::get<ToEvict>(find({.bytes = units(2)})).place, place(3, 2));
  fix(3);
  EXPECT_EQ(find_free({.bytes = units(2)}), place(1, 2));  // where no place can be made above
}

TEST_F(PlacementTest, MovesAPieceOnlyWhereNothingElseIs) {
  take(2, 3), take(7, 1);
  EXPECT_TRUE(placement_.can_move(at(2), place(3, 3))) << "it overlaps itself";
  EXPECT_FALSE(placement_.can_move(at(2), place(5, 3)));
  placement_.move(at(2), place(3, 3));
  EXPECT_EQ(find_free({.bytes = units(3)}), place(0, 3));
}

// .A.RBF.C..: A, B and C movable, R evictable, F fixed.
TEST_F(PlacementTest, GathersWhatIsMovableBetweenWhatIsFixed) {
  take(1, 1), take(3, 1), take(4, 1), take(5, 1), take(7, 1);
  fix(5);
  const std::set<std::uint64_t> movable = {at(1), at(4), at(7)};
  const auto gathering =
      placement_.plan_gathering([&](std::uint64_t piece) { return movable.contains(piece); }, evictability_);
  EXPECT_EQ(gathering.largest_run, units(3));
  EXPECT_TRUE(gathering.to_remove.empty());
  ASSERT_EQ(gathering.slides.size(), 3u);
  EXPECT_EQ(gathering.slides.back().from, at(7));
  EXPECT_EQ(gathering.slides.back().to, at(6));
}

TEST_F(PlacementTest, RoundsItsLimitDownToWholeGranules) {
  placement_.set_limit(units(9) - Bytes(1));
  EXPECT_EQ(placement_.limit(), units(8));
}

/// Against an array of granules: a place that is free is free, and one that is to be cleared is so once its pieces have
/// left; no place is found only if what cannot be evicted leaves none.
TEST_F(PlacementTest, AgreesWithAnArrayOnRandomPrograms) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    constexpr std::uint64_t kUnits = 40;
    Placement placement(kGranule);
    placement.set_limit(units(kUnits));
    placement.keep_for_plans(units(random() % kUnits));
    pieces_.clear();
    std::vector<std::uint64_t> owner(kUnits);  // number of the piece; 0: free
    std::map<std::uint64_t, std::uint64_t> numbers;
    std::uint64_t last = 0;
    const auto give_back = [&](std::uint64_t offset) {
      placement.give_back(offset);
      std::ranges::replace(owner, numbers.at(offset), std::uint64_t{0});
      numbers.erase(offset), pieces_.erase(offset);
    };
    for (int step = 0; step < 200; ++step) {
      const std::uint64_t size = 1 + random() % 8;
      const bool has_offset = random() % 3 == 0;
      const Wanted wanted{.bytes = units(size),
                          .keep_whole = units(random() % 3 == 0 ? random() % 8 : 0),
                          .at = has_offset ? std::optional(at(random() % kUnits)) : std::nullopt};
      Found found = placement.find(wanted, evictability_);
      if (const auto* const to_evict = std::get_if<ToEvict>(&found)) {
        ASSERT_FALSE(to_evict->pieces.empty());
        for (const std::uint64_t piece : to_evict->pieces) {
          ASSERT_TRUE(pieces_.contains(piece));
          give_back(piece);
        }
        found = to_evict->place;
      }
      if (std::holds_alternative<NoRoom>(found)) {
        std::uint64_t longest = 0, length = 0;
        for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
          const auto piece = std::ranges::find(numbers, owner[unit], [](const auto& one) { return one.second; });
          const bool is_fixed = piece != numbers.end() && !pieces_.contains(piece->first);
          longest = std::max(longest, length = is_fixed ? 0 : length + 1);
        }
        ASSERT_LT(longest, size);
        give_back(numbers.begin()->first);
        continue;
      }
      const Place& free = std::get<Place>(found);
      for (std::uint64_t unit = free.offset / at(1); unit < free.end() / at(1); ++unit) ASSERT_EQ(owner[unit], 0u);
      placement.take(free);
      numbers[free.offset] = ++last;
      std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(free.offset / at(1)), size, last);
      if (random() % 4 != 0) pieces_[free.offset] = {.is_clean = random() % 2 == 0, .unused_ops = random() % 9};
      if (random() % 3 == 0)
        give_back(std::next(numbers.begin(), static_cast<std::ptrdiff_t>(random() % numbers.size()))->first);
    }
  }
}

}  // namespace
}  // namespace tensorpager::arena
