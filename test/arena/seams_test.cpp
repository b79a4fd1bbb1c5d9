#include "tensorpager/arena/seams.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace tensorpager::arena {
namespace {

using namespace base;

/// Seams know numbers only, so places need not exist.
const std::byte* page_at(std::uint64_t page) { return reinterpret_cast<const std::byte*>(page * kPage.count()); }
Bytes pages(std::uint64_t count) { return Bytes(count * kPage.count()); }

using Parts = std::vector<std::pair<std::size_t, std::uint64_t>>;  // in pages

Parts parts_of(const Seams& seams, std::uint64_t begin, Bytes size) {
  Parts parts;
  seams.for_each_part(page_at(begin), size, [&](std::size_t at, Bytes bytes) {
    parts.emplace_back(at / kPage.count(), bytes.count() / kPage.count());
  });
  return parts;
}

TEST(Seams, CutARangeAtThePlacesInsideIt) {
  Seams seams;
  for (const std::uint64_t at : {100, 200, 250, 300, 400}) seams.add(page_at(at));
  EXPECT_EQ(parts_of(seams, 200, pages(100)), (Parts{{0, 50}, {50, 50}}));
  EXPECT_EQ(parts_of(seams, 150, pages(200)), (Parts{{0, 50}, {50, 50}, {100, 50}, {150, 50}}));
  EXPECT_EQ(parts_of(seams, 400, pages(100)), (Parts{{0, 100}}));
  EXPECT_EQ(parts_of(seams, 500, pages(100)), (Parts{{0, 100}}));
  EXPECT_EQ(seams.inside(page_at(200), pages(100)), 1u);
  EXPECT_EQ(seams.inside(page_at(150), pages(200)), 3u);
}

TEST(Seams, GoWithTheMemoryThatMoves) {
  Seams seams;
  for (const std::uint64_t at : {120, 150, 900}) seams.add(page_at(at));
  seams.move(page_at(100), pages(100), page_at(500));
  EXPECT_EQ(parts_of(seams, 500, pages(100)), (Parts{{0, 20}, {20, 30}, {50, 50}}));
  EXPECT_EQ(seams.inside(page_at(100), pages(100)), 0u);
  EXPECT_EQ(seams.size(), 3u);
}

TEST(Seams, GoToTheRangeRightBehindTheirs) {
  Seams seams;
  for (const std::uint64_t at : {150, 900}) seams.add(page_at(at));
  seams.move(page_at(100), pages(100), page_at(200));
  EXPECT_EQ(parts_of(seams, 200, pages(100)), (Parts{{0, 50}, {50, 50}}));
  EXPECT_EQ(seams.size(), 2u);
}

TEST(Seams, AreAsASetOfPlacesIs) {
  std::mt19937 random(1);
  const auto below = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random); };
  Seams seams;
  std::set<std::uint64_t> places;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t begin = 1 + below(400), size = 1 + below(200), to = 1000 + below(400);
    const auto first = places.upper_bound(begin), last = places.lower_bound(begin + size);
    ASSERT_EQ(seams.inside(page_at(begin), pages(size)), static_cast<std::size_t>(std::distance(first, last)));
    std::vector<std::uint64_t> moved;
    for (auto one = first; one != last; ++one) moved.push_back(to + *one - begin);
    const std::uint64_t what = below(8);
    if (what == 0) seams.move(page_at(begin), pages(size), page_at(to));
    if (what == 1) seams.forget(page_at(begin), pages(size));
    if (what <= 1) places.erase(places.upper_bound(begin), places.lower_bound(begin + size));
    if (what == 0) places.erase(places.upper_bound(to), places.lower_bound(to + size));
    if (what == 0) places.insert(moved.begin(), moved.end());
    if (what > 1) seams.add(page_at(begin)), places.insert(begin);
    ASSERT_EQ(seams.size(), places.size());
  }
}

TEST(Seams, AreForgottenWhereTheMemoryIsOneAgain) {
  Seams seams;
  for (const std::uint64_t at : {150, 180, 900}) seams.add(page_at(at));
  seams.forget(page_at(100), pages(100));
  EXPECT_EQ(parts_of(seams, 100, pages(100)), (Parts{{0, 100}}));
  EXPECT_EQ(seams.size(), 1u);
}

TEST(Seams, StayAtTheEndsOfWhatGoesAway) {
  Seams seams;
  for (const std::uint64_t at : {100, 150, 200}) seams.add(page_at(at));
  seams.forget(page_at(100), pages(100));
  EXPECT_EQ(parts_of(seams, 50, pages(250)), (Parts{{0, 50}, {50, 100}, {150, 100}}));
  seams.add(page_at(150));
  seams.move(page_at(100), pages(100), page_at(500));
  EXPECT_EQ(parts_of(seams, 50, pages(250)), (Parts{{0, 50}, {50, 100}, {150, 100}}));
}

TEST(Seams, OfAPlaceGiveWayToThoseThatComeThere) {
  Seams seams;
  for (const std::uint64_t at : {120, 500, 510, 600}) seams.add(page_at(at));
  seams.move(page_at(100), pages(100), page_at(500));
  EXPECT_EQ(parts_of(seams, 450, pages(200)), (Parts{{0, 50}, {50, 20}, {70, 80}, {150, 50}}));
}

}  // namespace
}  // namespace tensorpager::arena
