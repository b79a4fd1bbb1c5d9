#include "tensorpager/device/fence.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::device {
namespace {

constexpr Ticket out(std::uint64_t number) { return {Queue::kPageOuts, number}; }
constexpr Ticket in(std::uint64_t number) { return {Queue::kPageIns, number}; }

TEST(Fence, CoversWhatItsQueueDoesUpToTheTicketAndNothingElse) {
  const Fence fence = out(3);
  EXPECT_TRUE(fence.covers(out(2)));
  EXPECT_TRUE(fence.covers(out(3)));
  EXPECT_FALSE(fence.covers(out(4)));
  EXPECT_FALSE(fence.covers(in(1)));
}

TEST(Fence, MergesToTheLaterOfEachQueue) {
  const Fence both = Fence(out(3)) | in(5) | out(2);
  EXPECT_EQ(both.up_to(Queue::kPageOuts), 3u);
  EXPECT_EQ(both.up_to(Queue::kPageIns), 5u);
  EXPECT_EQ(Fence(in(5)) | out(3), both);
}

TEST(Fence, ForgetsTheQueuesThatOnlyTheOneBeforeAnAssignmentNamed) {
  Fence fence = Fence(out(3)) | in(5);
  fence = in(2);
  EXPECT_EQ(fence, Fence(in(2)));
  EXPECT_EQ(fence.up_to(Queue::kPageOuts), 0u);
  fence |= out(1);
  EXPECT_EQ(fence.up_to(Queue::kPageOuts), 1u) << "not the later one of before";
}

TEST(Fence, NamesAnyNumberOfQueuesInAnyOrder) {
  Fence fence;
  for (const std::size_t queue : {7U, 2U, 63U, 0U, 1U, 30U}) fence |= Ticket{static_cast<Queue>(queue), queue + 1};
  EXPECT_EQ(fence.up_to(static_cast<Queue>(63)), 64u);
  EXPECT_EQ(fence.up_to(static_cast<Queue>(8)), 0u);
  std::vector<std::size_t> named;
  fence.for_each([&](Queue queue, std::uint64_t number) {
    EXPECT_EQ(number, index_of(queue) + 1);
    named.push_back(index_of(queue));
  });
  EXPECT_EQ(named, (std::vector<std::size_t>{0, 1, 2, 7, 30, 63}));
}

TEST(Fence, IsEmptyIfNothingIsToBeWaitedFor) {
  EXPECT_TRUE(Fence().is_empty());
  EXPECT_TRUE(Fence(Ticket()).is_empty());
  EXPECT_FALSE(Fence(in(1)).is_empty());
  EXPECT_TRUE(Fence().covers(in(0))) << "a ticket that is finished already";
}

}  // namespace
}  // namespace tensorpager::device
