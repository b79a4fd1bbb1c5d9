#include "tensorpager/pager/place_order.h"

#include <gtest/gtest.h>

#include <memory>

#include "holders.h"
#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/memory/stable_binding.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::pager {
namespace {

using memory::PlaceReuse;

constexpr Place kPlace{.offset = 4096, .bytes = memory::kBlock};
constexpr transfer::Ticket kCopy{device::Queue::kPageOuts, 7};

class PlaceOrderTest : public testing::Test {
 protected:
  /// A block that gives its place back while it is copied from there.
  static void leave(PlaceOrder& order) {
    Block block;
    block.charged = kPlace.bytes;
    block.place = kPlace.offset;
    block.use().begin_behind(kCopy);
    order.leave(block);
  }

  arena::AddressSpace space_;
  memory::Storages storages_;
  memory::RebindingBinding binding_{space_, storages_, PlaceReuse::kDuringCopy};
  Statistics counts_;
  std::unique_ptr<transfer::Queues> queues_ = transfer::make_synchronous_queues(transfer::make_ram_tier());
};

TEST_F(PlaceOrderTest, WhoTakesAnyPartOfAPlaceComesBehindThoseThatHadIt) {
  PlaceOrder order(binding_, counts_);
  order.use(queues_.get());
  ASSERT_TRUE(order.passes_on());
  leave(order);
  EXPECT_TRUE(order.uses_of(kPlace).covers(kCopy));
  EXPECT_TRUE(order.uses_of(Place{.offset = 0, .bytes = base::Bytes(4097)}).covers(kCopy));
  EXPECT_TRUE(order.uses_of(Place{.offset = 0, .bytes = base::Bytes(4096)}).is_empty()) << "beside it";
}

TEST_F(PlaceOrderTest, KnowsTheCopiesOfABlockWhosePlaceWasPassedOn) {
  PlaceOrder order(binding_, counts_);
  order.use(queues_.get());
  Block block;
  block.number = 3;
  block.copy = kCopy;
  order.pass_on(block);
  EXPECT_TRUE(order.copies_of(3).covers(kCopy));
  EXPECT_TRUE(order.copies_of(4).is_empty());
}

TEST_F(PlaceOrderTest, ForgetsThePlacesOfTheSessionBefore) {
  PlaceOrder order(binding_, counts_);
  order.use(queues_.get());
  leave(order);
  order.use(queues_.get());
  EXPECT_TRUE(order.uses_of(kPlace).is_empty());
}

TEST_F(PlaceOrderTest, NoPlaceIsPassedOnIfTheBytesCouldBeLost) {
  const auto file_queues = transfer::make_synchronous_queues(transfer::make_file_tier(testing::TempDir()));
  memory::RebindingBinding waits(space_, storages_, PlaceReuse::kAfterCopy);
  memory::StableBinding stable(space_);
  PlaceOrder of_file(binding_, counts_), of_waiting(waits, counts_), of_stable(stable, counts_);
  of_file.use(file_queues.get());
  for (PlaceOrder* order : {&of_waiting, &of_stable}) order->use(queues_.get());
  for (PlaceOrder* order : {&of_file, &of_waiting, &of_stable}) {
    EXPECT_FALSE(order->passes_on());
    leave(*order);
    EXPECT_TRUE(order->uses_of(kPlace).is_empty());
  }
}

}  // namespace
}  // namespace tensorpager::pager
