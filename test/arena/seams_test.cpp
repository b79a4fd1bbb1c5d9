#include "tensorpager/arena/seams.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tensorpager::arena {
namespace {

using namespace base;

/// Seams know numbers only, so places need not exist.
const std::byte* place(std::uint64_t address) { return reinterpret_cast<const std::byte*>(address); }

std::vector<std::pair<std::size_t, std::uint64_t>> parts_of(const Seams& seams, std::uint64_t begin, Bytes size) {
  std::vector<std::pair<std::size_t, std::uint64_t>> parts;
  seams.for_each_part(place(begin), size, [&](std::size_t at, Bytes bytes) { parts.emplace_back(at, bytes.count()); });
  return parts;
}

using Parts = std::vector<std::pair<std::size_t, std::uint64_t>>;

TEST(Seams, CutARangeAtThePlacesInsideIt) {
  Seams seams;
  for (const std::uint64_t at : {100, 200, 250, 300, 400}) seams.add(place(at));
  EXPECT_EQ(parts_of(seams, 200, 100_B), (Parts{{0, 50}, {50, 50}}));
  EXPECT_EQ(parts_of(seams, 150, 200_B), (Parts{{0, 50}, {50, 50}, {100, 50}, {150, 50}}));
  EXPECT_EQ(parts_of(seams, 400, 100_B), (Parts{{0, 100}}));
  EXPECT_EQ(parts_of(seams, 500, 100_B), (Parts{{0, 100}}));
  EXPECT_EQ(seams.inside(place(200), 100_B), 1u);
  EXPECT_EQ(seams.inside(place(150), 200_B), 3u);
}

TEST(Seams, GoWithTheMemoryThatMoves) {
  Seams seams;
  for (const std::uint64_t at : {120, 150, 900}) seams.add(place(at));
  seams.move(place(100), 100_B, place(500));
  EXPECT_EQ(parts_of(seams, 500, 100_B), (Parts{{0, 20}, {20, 30}, {50, 50}}));
  EXPECT_EQ(seams.inside(place(100), 100_B), 0u);
  EXPECT_EQ(seams.size(), 3u);
}

TEST(Seams, GoToTheRangeRightBehindTheirs) {
  Seams seams;
  for (const std::uint64_t at : {150, 900}) seams.add(place(at));
  seams.move(place(100), 100_B, place(200));
  EXPECT_EQ(parts_of(seams, 200, 100_B), (Parts{{0, 50}, {50, 50}}));
  EXPECT_EQ(seams.size(), 2u);
}

TEST(Seams, AreForgottenWhereTheMemoryIsOneAgain) {
  Seams seams;
  for (const std::uint64_t at : {150, 180, 900}) seams.add(place(at));
  seams.forget(place(100), 100_B);
  EXPECT_EQ(parts_of(seams, 100, 100_B), (Parts{{0, 100}}));
  EXPECT_EQ(seams.size(), 1u);
}

}  // namespace
}  // namespace tensorpager::arena
