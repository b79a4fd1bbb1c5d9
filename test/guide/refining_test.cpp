// A plan is rebuilt from the times that ops take by now, and replaces the active one if it is quicker.
#include <chrono>
#include <functional>
#include <string>

#include "guide_fixture.h"

namespace tensorpager::guide {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Tells a guide that ops took as long as a test says, whatever the machine does meanwhile.
class SetTimes final : public base::EventSink {
 public:
  using TimeOf = std::function<nanoseconds(std::string_view op)>;

  SetTimes(Guide& guide, const TimeOf& time_of) : guide_(guide), time_of_(time_of) {}

  Ticket op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept override {
    base::OpFacts known = facts;
    known.before = nanoseconds(0);
    known.purity = base::Purity::kPure;
    name_ = facts.name;
    return guide_.op_begins(known, touched);
  }
  void op_touches(Ticket op, std::span<const base::Touch> touched) noexcept override { guide_.op_touches(op, touched); }
  Ticket op_ends(Ticket op, nanoseconds) noexcept override { return guide_.op_ends(op, time_of_(name_)); }
  void op_timed(Ticket op, nanoseconds took) noexcept override { guide_.op_timed(op, took); }
  void block_born(Ticket op, const base::NewBlock& block) noexcept override { guide_.block_born(op, block); }
  void block_died(Ticket op, std::uint64_t number) noexcept override { guide_.block_died(op, number); }
  void slab_grew(base::Bytes slab) noexcept override { guide_.slab_grew(slab); }
  void hint(base::Hint hint) noexcept override { guide_.hint(hint); }

 private:
  Guide& guide_;
  const TimeOf& time_of_;
  std::string_view name_;
};

/// Of the ops that touch blocks.
SetTimes::TimeOf each_takes(nanoseconds time) {
  return [time](std::string_view op) { return op == "item" ? nanoseconds(0) : time; };
}

/// A block takes 3.3 ms on the link, so what its handling takes on the machine matters little.
class RefiningTest : public GuideTest {
 protected:
  void start_refining(SetTimes::TimeOf time_of, Guide::Options options = {.waits = true, .pauses = false}) {
    time_of_ = std::move(time_of);
    start_guided(room_for(14), std::move(options),
                 transfer::make_threaded_queues(transfer::make_ram_tier(), base::parse_link("20MB/s")));
    for (int step = 0; step < 3; ++step) train();  // which are found
  }
  base::EventSink& make_sink() override { return times_.emplace(*guide_, time_of_); }

  SetTimes::TimeOf time_of_;

 private:
  std::optional<SetTimes> times_;
};

// Planned for ops of 50 ms, each page-in begins one op before it is needed. Once ops take 1.5 ms that is too late, and
// it could begin three ops before.
TEST_F(RefiningTest, AQuickerPlanTakesThePlaceOfOneThatIsTooLate) {
  start_refining(each_takes(milliseconds(50)));
  time_of_ = each_takes(microseconds(1500));
  train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  EXPECT_GT(guide_->progress().predicted_window_seconds, 0.8);
  for (int step = 0; step < 10; ++step) train();
  EXPECT_EQ(guide_->progress().plans, 2u);
  EXPECT_LT(guide_->progress().predicted_window_seconds, 0.04);
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_TRUE(said_[1].starts_with("plan rebuilt: ")) << said_[1];
  EXPECT_EQ(counts().plan_misses, 0u);
}

TEST_F(RefiningTest, ThePlanStaysWhereNoneIsQuicker) {
  start_refining(each_takes(milliseconds(50)));
  for (int step = 0; step < 11; ++step) train();
  EXPECT_EQ(guide_->progress().plans, 1u);
  EXPECT_EQ(said_.size(), 1u);
  EXPECT_EQ(counts().followed_ops, 11 * 2 * kLayers);
}

// Slabs that replays keep in use, say: blocks would have to leave earlier than planned.
TEST_F(RefiningTest, AnotherPlanIsMadeWhereSlabsHaveOutgrownIt) {
  start_refining(each_takes(milliseconds(50)));
  train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  pager_.storages().acquire_slab_chunk(kBlock);
  for (int step = 0; step < 11; ++step) train();
  EXPECT_EQ(guide_->progress().plans, 2u);
  EXPECT_EQ(said_.size(), 2u);
}

// What a layer makes would be rebuilt from what the one before made. No plan is quicker than to page it.
TEST_F(RefiningTest, APlanThatRebuildsAllIsTakenOnceWhereItIsAskedFor) {
  int replaying = 0;
  start_refining(each_takes(milliseconds(50)), {.recomputation = base::Recomputation::kEverywhere,
                                                .waits = true,
                                                .pauses = false,
                                                .before_replays = [&] { ++replaying; }});
  train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  ASSERT_EQ(replaying, 0);
  for (int step = 0; step < 20; ++step) train();
  EXPECT_EQ(guide_->progress().plans, 2u);
  EXPECT_EQ(replaying, 1);
}

}  // namespace
}  // namespace tensorpager::guide
