#include "tensorpager/sim/virtual_queues.h"

#include "../transfer/queues_contract.h"

namespace tensorpager::sim {
namespace {

using transfer::Ticket;
using namespace base;
using machine::Nanoseconds;

/// A page takes 5 ms out and 50 ms in.
machine::Machine make_machine() {
  machine::Machine machine;
  machine.out = {.latency = Nanoseconds(1'000'000), .steps = {{.from = Bytes(0), .bytes_per_second = 1'024'000}}};
  machine.in = {.latency = Nanoseconds(10'000'000), .steps = {{.from = Bytes(0), .bytes_per_second = 102'400}}};
  return machine;
}

struct Virtual {
  machine::Machine machine = make_machine();
  Nanoseconds clock{0};
  VirtualQueues queues{machine, clock};
};

constexpr Nanoseconds milliseconds(std::int64_t n) { return Nanoseconds(n * 1'000'000); }

class VirtualQueuesTest : public testing::Test, protected Virtual {
 protected:
  void TearDown() override { queues.release(slot_); }
  Ticket page_out() { return queues.submit(transfer::PageOut{.from = page_.bytes(), .slot = slot_}); }
  Ticket page_in() { return queues.submit(transfer::PageIn{.slot = slot_, .to = {page_.bytes()}}); }

  transfer::PageBuffer page_{4_KiB};
  transfer::Slot slot_ = queues.reserve(4_KiB);
};

TEST_F(VirtualQueuesTest, TransfersOfOneDirectionFollowEachOther) {
  page_out();
  const Ticket second = page_out();
  queues.wait(second);
  EXPECT_EQ(clock, milliseconds(10));
  EXPECT_EQ(queues.stalled_for_page_outs(), milliseconds(10));
}

TEST_F(VirtualQueuesTest, TransfersOfBothDirectionsPassEachOther) {
  const Ticket in = page_in(), out = page_out();
  queues.wait(out);
  EXPECT_EQ(clock, milliseconds(5));
  EXPECT_FALSE(queues.is_done(in));
  queues.wait(in);
  EXPECT_EQ(clock, milliseconds(50));
  EXPECT_EQ(queues.stalled_for_page_ins(), milliseconds(45));
}

TEST_F(VirtualQueuesTest, APageInBeginsWhenThePageOutBeforeItEnds) {
  queues.wait(queues.submit(transfer::PageIn{.after = page_out(), .slot = slot_, .to = {page_.bytes()}}));
  EXPECT_EQ(clock, milliseconds(55));
}

TEST_F(VirtualQueuesTest, ATransferIsDoneOnceTheClockHasPassedIt) {
  const Ticket out = page_out();
  EXPECT_FALSE(queues.is_done(out));
  clock = milliseconds(5);
  EXPECT_TRUE(queues.is_done(out));
  queues.wait(out);
  EXPECT_EQ(queues.stalled_for_page_outs(), Nanoseconds(0));
}

std::shared_ptr<transfer::Queues> make_queues() {
  const auto parts = std::make_shared<Virtual>();
  return {parts, &parts->queues};
}

using transfer::QueuesContract;
INSTANTIATE_TEST_SUITE_P(Virtual, QueuesContract, testing::Values(transfer::QueuesCase{"Virtual", &make_queues}),
                         transfer::name_of_queues);

}  // namespace
}  // namespace tensorpager::sim
