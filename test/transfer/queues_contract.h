// What all queues must do, with or without bytes: order, waiting, cancelling, forks. To add some: instantiate the suite
// in a test of theirs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "child_process.h"
#include "page_buffer.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::transfer {

using namespace base;

struct QueuesCase {
  const char* name;
  std::function<std::shared_ptr<Queues>()> make;
};

inline std::string name_of_queues(const testing::TestParamInfo<QueuesCase>& instance) { return instance.param.name; }

class QueuesContract : public testing::TestWithParam<QueuesCase> {
 protected:
  static constexpr Bytes kSize{std::uint64_t{64} << 10};

  void SetUp() override { queues_->wait(queues_->submit(PageOut{.from = from_.bytes(), .slot = stored_})); }
  void TearDown() override {
    queues_->release(stored_);
    queues_->release(written_);
    EXPECT_EQ(queues_->reserved(), 0_B) << "slots were left behind";
    queues_.reset();  // its threads end before what they use
  }

  Ticket page_out() { return queues_->submit(PageOut{.from = from_.bytes(), .slot = written_}); }
  Ticket page_in() { return queues_->submit(PageIn{.slot = stored_, .to = {to_.bytes()}}); }

  PageBuffer from_{kSize, 1}, to_{kSize};
  std::shared_ptr<Queues> queues_ = GetParam().make();
  Slot stored_ = queues_->reserve(kSize), written_ = queues_->reserve(kSize);
};

TEST_P(QueuesContract, WhatIsWaitedForIsDone) {
  for (const Ticket ticket : {page_out(), page_in()}) {
    queues_->wait(ticket);
    EXPECT_TRUE(queues_->is_done(ticket));
  }
}

TEST_P(QueuesContract, ATicketThatIsFinishedAlreadyIsDoneAndNeedsNoWait) {
  EXPECT_TRUE(queues_->is_done({}));
  EXPECT_FALSE(queues_->cancel({}));
  queues_->wait({});
}

TEST_P(QueuesContract, TheHostWaitsForAllThatAFenceCovers) {
  const Ticket out = page_out(), in = page_in();
  const Fence all = queues_->submitted();
  EXPECT_TRUE(all.covers(out));
  EXPECT_TRUE(all.covers(in));
  queues_->host_wait(Fence(out) | in);
  EXPECT_TRUE(queues_->is_done(out));
  EXPECT_TRUE(queues_->is_done(in));
  EXPECT_TRUE(queues_->is_done(all));
  for (const Ticket ticket : {out, in}) queues_->wait(ticket);
}

TEST_P(QueuesContract, AFenceIsNotDoneBeforeEitherOfItsQueues) {
  const Ticket out = page_out(), in = page_in();
  const Fence both = Fence(out) | in;
  queues_->wait(out);
  const bool is_done = queues_->is_done(both);  // asked first: the page-in may be done meanwhile
  EXPECT_TRUE(!is_done || queues_->is_done(in));
  queues_->wait(in);
  EXPECT_TRUE(queues_->is_done(both));
}

TEST_P(QueuesContract, TransfersOfOneDirectionAreDoneInTheOrderOfTheirSubmission) {
  for (const bool out : {true, false}) {
    std::vector<Ticket> tickets;
    for (int i = 0; i < 6; ++i) tickets.push_back(out ? page_out() : page_in());
    for (std::size_t i = 1; i < tickets.size(); ++i)
      EXPECT_TRUE(tickets[i].is_finished() || tickets[i - 1] < tickets[i]);
    queues_->wait(tickets[3]);
    for (std::size_t i = 0; i <= 3; ++i) EXPECT_TRUE(queues_->is_done(tickets[i])) << i;
    queues_->wait(tickets[5]);
    for (const Ticket ticket : tickets) queues_->wait(ticket);
  }
}

TEST_P(QueuesContract, APageInIsDoneNoEarlierThanThePageOutThatItIsSubmittedAfter) {
  const Ticket out = page_out();
  const Ticket in = queues_->submit(PageIn{.after = out, .slot = written_, .to = {to_.bytes()}});
  queues_->wait(in);
  EXPECT_TRUE(queues_->is_done(out));
  EXPECT_TRUE(queues_->is_done(in));
  queues_->wait(out);
}

TEST_P(QueuesContract, DoesOnceWhatAPageOutIsSubmittedAfter) {
  int calls = 0;
  queues_->wait(queues_->submit(PageOut{.first = [&] { ++calls; }, .from = from_.bytes(), .slot = written_}));
  EXPECT_EQ(calls, 1);
}

TEST_P(QueuesContract, TellsThatWhatAPageOutIsSubmittedAfterFailedAndGoesOn) {
  const auto fails = [] { throw std::runtime_error("what comes first"); };
  EXPECT_THROW(queues_->wait(queues_->submit(PageOut{.first = fails, .from = from_.bytes(), .slot = written_})),
               std::runtime_error);
  EXPECT_NO_THROW(queues_->wait(page_out()));
}

TEST_P(QueuesContract, DoesOnceWhatFollowsAPageIn) {
  int calls = 0;
  queues_->wait(queues_->submit(PageIn{.slot = stored_, .to = {to_.bytes()}, .then = [&] { ++calls; }}));
  EXPECT_EQ(calls, 1);
}

TEST_P(QueuesContract, TellsThatWhatFollowsAPageInFailedAndGoesOn) {
  const auto fails = [] { throw std::runtime_error("what follows"); };
  EXPECT_THROW(queues_->wait(queues_->submit(PageIn{.slot = stored_, .to = {to_.bytes()}, .then = fails})),
               std::runtime_error);
  EXPECT_NO_THROW(queues_->wait(page_in()));
}

TEST_P(QueuesContract, GoesOnAfterTransfersWereCancelledInAnyOrder) {
  const Ticket tickets[] = {page_out(), page_in(), page_out(), page_in()};
  for (const std::size_t i : {2u, 1u, 3u, 0u}) queues_->cancel(tickets[i]);
  const Ticket last[] = {page_out(), page_in()};
  for (const Ticket ticket : last) {
    queues_->wait(ticket);
    EXPECT_TRUE(queues_->is_done(ticket));
  }
}

TEST_P(QueuesContract, ReservedCountsTheBytesInSlots) {
  const Bytes before = queues_->reserved();
  const Slot other = queues_->reserve(1_MiB);
  EXPECT_EQ(other.bytes, 1_MiB);
  EXPECT_EQ(queues_->reserved(), before + 1_MiB);
  queues_->release(other);
  EXPECT_EQ(queues_->reserved(), before);
}

// Slots of before are read only.
TEST_P(QueuesContract, WorksInBothProcessesAfterAForkThatFindsTransfersInFlight) {
  const Ticket before[] = {page_out(), page_in()};
  queues_->before_fork();
  const auto live_on = [&](bool in_child) {
    queues_->after_fork(in_child);
    for (const Ticket ticket : before) queues_->wait(ticket);
    const Slot own = queues_->reserve(kSize);
    const Ticket out = queues_->submit(PageOut{.from = from_.bytes(), .slot = own});
    const Ticket in[] = {page_in(), queues_->submit(PageIn{.after = out, .slot = own, .to = {to_.bytes()}})};
    for (const Ticket ticket : in) queues_->wait(ticket);
    EXPECT_TRUE(queues_->is_done(out));
    queues_->wait(out);
    queues_->release(own);
  };
  ChildProcess child([&] { live_on(true); });
  live_on(false);
  child.join();
}

}  // namespace tensorpager::transfer
