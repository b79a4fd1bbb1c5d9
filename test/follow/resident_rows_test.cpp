#include "tensorpager/follow/resident_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tensorpager::follow {
namespace {

Plan random_plan(std::uint32_t ops, std::size_t rows) {
  std::mt19937 random(5);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Plan plan{.ops = ops};
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint32_t begin = below(ops);
    const std::uint32_t end = begin + 1 + below(ops - begin);
    plan.rows.push_back({.bytes = base::Bytes(4096), .offset = below(1000) * 4096ull, .begin = begin, .end = end});
  }
  return plan;
}

TEST(ResidentRows, HasAllThatAreResidentAtAnOp) {
  for (const std::uint32_t ops : {1u, 63u, 64u, 300u}) {
    const Plan plan = random_plan(ops, 200);
    const ResidentRows resident(plan);
    for (std::uint32_t op = 0; op < ops; ++op) {
      const std::vector<std::uint32_t>& near = resident.near(op);
      for (std::uint32_t i = 0; i < plan.rows.size(); ++i) {
        const bool is_resident = plan.rows[i].begin <= op && op < plan.rows[i].end;
        EXPECT_LE(is_resident ? 1 : 0, std::ranges::count(near, i)) << "op " << op << ", row " << i;
      }
      EXPECT_TRUE(std::ranges::is_sorted(near, {}, [&](std::uint32_t i) { return plan.rows[i].offset; }));
    }
  }
}

TEST(ResidentRows, HasNoneThatAreFarAway) {
  const Plan plan = random_plan(1000, 200);
  const ResidentRows resident(plan);
  for (std::uint32_t op = 0; op < plan.ops; op += 10)
    for (const std::uint32_t i : resident.near(op)) {
      EXPECT_LT(plan.rows[i].begin, op + 64);
      EXPECT_GT(plan.rows[i].end + 64, op);
    }
}

TEST(ResidentRows, KnowsTheEndOfTheHighest) {
  Plan plan{.ops = 2};
  EXPECT_EQ(ResidentRows(plan).top(), 0u);
  plan.rows = {{.bytes = base::Bytes(4096), .offset = 8192, .end = 1}, {.bytes = base::Bytes(512), .end = 2}};
  EXPECT_EQ(ResidentRows(plan).top(), 12288u);
}

}  // namespace
}  // namespace tensorpager::follow
