#include "tensorpager/planning/segment_tree.h"

#include <gtest/gtest.h>

#include <random>

namespace tensorpager::planning {
namespace {

TEST(SegmentTree, AnswersAsAnArrayDoes) {
  std::mt19937 random(5);
  for (const std::size_t count : {1, 2, 3, 7, 8, 37}) {
    std::vector<std::int64_t> array(count);
    for (std::int64_t& number : array) number = static_cast<std::int64_t>(random() % 41) - 20;
    SegmentTree tree(array);
    for (int step = 0; step < 500; ++step) {
      const std::size_t begin = random() % count;
      const std::size_t end = begin + random() % (count + 1 - begin);
      const auto value = static_cast<std::int64_t>(random() % 41) - 20;
      if (step % 2 == 0) {
        tree.add(begin, end, value);
        for (std::size_t i = begin; i < end; ++i) array[i] += value;
      }
      std::optional<std::size_t> last;
      for (std::size_t i = begin; i < end; ++i) {
        if (array[i] > value) last = i;
      }
      ASSERT_EQ(tree.find_last_above(begin, end, value), last) << "step " << step;
      const auto largest = std::ranges::max_element(array);
      ASSERT_EQ(tree.largest(), *largest);
      ASSERT_EQ(tree.first_largest(), static_cast<std::size_t>(largest - array.begin()));
    }
  }
}

}  // namespace
}  // namespace tensorpager::planning
