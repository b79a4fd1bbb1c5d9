#include "tensorpager/base/inline_vector.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::base {
namespace {

template <typename Vector>
bool is_inside(const Vector& vector) {
  const auto* data = reinterpret_cast<const std::byte*>(vector.begin());
  const auto* self = reinterpret_cast<const std::byte*>(&vector);
  return data >= self && data < self + sizeof vector;
}

template <typename Vector>
std::vector<int> values_of(const Vector& vector) {
  return {vector.begin(), vector.end()};
}

TEST(InlineVector, IsEmptyAtFirst) {
  InlineVector<int, 4> vector;
  EXPECT_TRUE(vector.empty());
  EXPECT_EQ(vector.size(), 0u);
  EXPECT_EQ(vector.begin(), vector.end());
}

TEST(InlineVector, AllocatesOnlyForMoreThanItHasRoomFor) {
  InlineVector<int, 4> vector;
  for (int i = 0; i < 4; ++i) vector.push_back(i);
  EXPECT_TRUE(is_inside(vector));
  vector.push_back(4);
  EXPECT_FALSE(is_inside(vector));
  EXPECT_EQ(values_of(vector), (std::vector{0, 1, 2, 3, 4}));
}

TEST(InlineVector, KeepsEveryValueInOrderWhileItGrows) {
  InlineVector<int, 1> vector;
  std::vector<int> expected;
  for (int i = 0; i < 1000; ++i) {
    vector.push_back(i);
    expected.push_back(i);
    ASSERT_EQ(values_of(vector), expected);
  }
  EXPECT_EQ(vector.size(), 1000u);
}

TEST(InlineVector, CopiesToStorageOfItsOwn) {
  for (const int count : {0, 2, 5}) {
    InlineVector<int, 2> vector;
    for (int i = 0; i < count; ++i) vector.push_back(i);
    const std::vector<int> values = values_of(vector);
    InlineVector<int, 2> copy = vector;
    InlineVector<int, 2> assigned;
    for (int i = 0; i < 3; ++i) assigned.push_back(7);
    assigned = vector;
    vector.clear();
    vector.push_back(9);
    EXPECT_EQ(values_of(copy), values);
    EXPECT_EQ(values_of(assigned), values);
    EXPECT_EQ(is_inside(copy), count <= 2);
    const InlineVector<int, 2>& itself = copy;
    copy = itself;
    EXPECT_EQ(values_of(copy), values);
  }
}

TEST(InlineVector, PushesAValueOfItsOwn) {
  InlineVector<int, 2> vector;
  vector.push_back(7);
  vector.push_back(8);
  vector.push_back(*vector.begin());
  EXPECT_EQ(values_of(vector), (std::vector{7, 8, 7}));
}

TEST(InlineVector, StartsAgainWhenCleared) {
  InlineVector<int, 2> vector;
  for (int i = 0; i < 5; ++i) vector.push_back(i);
  vector.clear();
  EXPECT_TRUE(vector.empty());
  vector.push_back(9);
  EXPECT_EQ(values_of(vector), (std::vector{9}));
}

TEST(InlineVector, LetsItsValuesBeChanged) {
  InlineVector<int, 2> vector;
  for (int i = 0; i < 3; ++i) vector.push_back(i);
  for (int& value : vector) value *= 10;
  EXPECT_EQ(values_of(vector), (std::vector{0, 10, 20}));
}

}  // namespace
}  // namespace tensorpager::base
