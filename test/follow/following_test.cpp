// Plans followed with real bytes: what moves ahead of its use arrives as it was written, within the budget, also where
// the program does not do what the plan expects.
#include <map>
#include <random>

#include "../pager/pager_fixture.h"
#include "../plan/synthetic_traces.h"
#include "../random_cases.h"
#include "tensorpager/follow/plan_cursor.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;
using trace::index;
using trace::StorageId;

constexpr unsigned kSeeds = random_cases(25, 8);

class FollowingTest : public PagerTest, public testing::WithParamInterface<Tier> {
 protected:
  /// Plans a window of a trace for little more than it must have, and makes what is alive when it begins.
  void follow(const trace::Trace& window) {
    window_ = window;
    const plan::Liveness liveness(window);
    const Bytes budget(liveness.floor().count() + (liveness.need() - liveness.floor()).count() / 5);
    const machine::Link link{.latency = machine::Nanoseconds(500), .steps = {{.from = 0_B, .bytes_per_second = 1e9}}};
    machine::Machine machine;
    machine.out = machine.in = link;
    const auto plan =
        planning::make_planner("pages")->plan({.trace = window, .machine = machine, .budget = budget}).value();
    cursor_ = std::make_unique<PlanCursor>(std::make_shared<const follow::Agenda>(window, plan));
    for (const plan::Row& row : plan.rows) planned_page_ins_ += row.fill == plan::Fill::kPageIn ? 1 : 0;
    // Small storages are in no block here, so their part of the budget is free.
    start(budget, GetParam().make());
    live_.assign(window.storages.size(), nullptr);
    for (std::uint32_t i = 0; i < window.storages.size(); ++i) {
      if (!window.storages[i].entry || !is_paged(window.storages[i].bytes)) continue;
      make_storage(StorageId{i});
      cursor_->bind(StorageId{i}, *live_[i]);
    }
    pager_.following().follow(cursor_.get());
  }
  void stop_following() {
    pager_.following().follow(nullptr);
    while (!blocks_.empty()) destroy(*blocks_.back());
    live_.clear();
    seeds_.clear();
  }

  void run_op(const trace::Op& op) {
    {
      pager_.boundaries().op_begins();
      PinSet pins(pager_, Temporaries::kKeep);
      for (const StorageId id : op.reads) see(pins, id, Access::kRead);
      for (const StorageId id : op.writes) see(pins, id, Access::kWrite);
      pins.follow(base::name_hash(op.name));
      pins.admit();
      for (const StorageId id : op.reads) check(id);
      for (const StorageId id : op.writes) {
        check(id);
        if (live_[index(id)] != nullptr) fill(*live_[index(id)], seeds_[id] = ++last_seed_);
      }
      for (const StorageId id : op.births)
        if (is_paged(window_.storages[index(id)].bytes)) make_storage(id);
      if (is_paged(op.temporary)) {
        Block& temporary = pager_.storages().create(op.temporary);
        fill(temporary, 1);
        pager_.storages().destroy(temporary);
      }
    }
    for (const StorageId id : op.deaths) {
      if (live_[index(id)] != nullptr) destroy(*live_[index(id)]);
      live_[index(id)] = nullptr;
    }
  }
  void run_window() {
    for (const trace::Op& op : window_.ops) run_op(op);
  }

  /// An op that no plan knows: reads two blocks and makes one, which lives for a while.
  void run_unknown_op() {
    PinSet pins(pager_, Temporaries::kKeep);
    std::vector<StorageId> read;
    for (int i = 0; i < 2; ++i) {
      const StorageId id{static_cast<std::uint32_t>(random_() % live_.size())};
      see(pins, id, Access::kRead);
      read.push_back(id);
    }
    pins.follow(base::name_hash("unknown"));
    pins.admit();
    for (const StorageId id : read) check(id);
    if (!foreign_.empty() && random_() % 3 == 0) {
      destroy(*foreign_.back());
      foreign_.pop_back();
    }
    foreign_.push_back(&make(20_KiB, 5));
  }

  std::mt19937 random_{3};
  std::unique_ptr<PlanCursor> cursor_;
  trace::Trace window_;
  std::vector<Block*> live_;            // by storage
  std::uint64_t planned_page_ins_ = 0;  // in one window of each plan
  std::vector<Block*> foreign_;

 private:
  static bool is_paged(Bytes size) { return round_up(size, kPage) >= 16_KiB; }
  void make_storage(StorageId id) {
    live_[index(id)] = &make(window_.storages[index(id)].bytes, seeds_[id] = ++last_seed_);
  }
  void see(PinSet& pins, StorageId id, Access access) {
    if (live_[index(id)] != nullptr) pins.see(*live_[index(id)], access);
  }
  void check(StorageId id) {
    if (live_[index(id)] == nullptr) return;
    ASSERT_TRUE(is_filled(*live_[index(id)], seeds_[id])) << "storage " << index(id);
  }

  std::map<StorageId, std::uint64_t> seeds_;
  std::uint64_t last_seed_ = 10;
};

trace::Trace paged_trace(unsigned seed) {
  trace::Trace trace = plan::random_trace(seed);
  trace.granule = kPage;
  return trace;
}

TEST_P(FollowingTest, BytesArriveAsTheyWereWrittenInEveryWindow) {
  std::uint64_t moved = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    follow(paged_trace(seed));
    for (int window = 0; window < 3; ++window) run_window();
    EXPECT_EQ(counts().followed_ops, 3 * window_.ops.size());
    EXPECT_EQ(counts().plan_misses, 0u);
    EXPECT_EQ(counts().failed_actions, 0u);
    EXPECT_EQ(counts().over_budget_bytes, 0u);
    EXPECT_LE(counts().peak_bytes, counts().budget_bytes);
    moved += counts().page_ins;
    stop_following();
    pager_.stop();
  }
  // In the first window much is there yet; and what is to come back before it has left stays.
  EXPECT_GE(moved, 2 * planned_page_ins_ * 9 / 10);
  EXPECT_GT(planned_page_ins_, 2 * kSeeds);
}

TEST_P(FollowingTest, BytesArriveAsTheyWereWrittenWhereOpsComeAndGo) {
  std::uint64_t misses = 0;
  std::uint64_t followed = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    follow(paged_trace(seed));
    for (int window = 0; window < 4; ++window) {
      for (const trace::Op& op : window_.ops) {
        const bool may_be_left_out = op.births.empty() && op.deaths.empty();
        if (may_be_left_out && random_() % 10 == 0) continue;
        try {
          if (random_() % 12 == 0) run_unknown_op();
          run_op(op);
        } catch (const OverBudget&) {
          // What the plan does not know may be too much where the op needs all there is.
          for (Block* block : foreign_) destroy(*block);
          foreign_.clear();
          run_op(op);
        }
      }
    }
    misses += counts().plan_misses;
    followed += counts().followed_ops;
    EXPECT_EQ(counts().over_budget_bytes, 0u);
    foreign_.clear();
    stop_following();
    pager_.stop();
  }
  EXPECT_GT(misses, 4 * kSeeds);
  EXPECT_GT(followed, misses);
}

// What is under way when the session ends, or when the program forks, ends well.
TEST_P(FollowingTest, TheSessionMayEndWithTransfersUnderWay) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    follow(paged_trace(seed));
    run_window();
    const std::size_t half = window_.ops.size() / 2;
    for (std::size_t op = 0; op < half; ++op) run_op(window_.ops[op]);
    pager_.following().follow(nullptr);
    pager_.stop();
    for (std::size_t op = half; op < window_.ops.size(); ++op) run_op(window_.ops[op]);
    stop_following();
  }
}

TEST_P(FollowingTest, AForkMayComeWithTransfersUnderWay) {
  follow(paged_trace(5));
  run_window();
  for (std::size_t op = 0; op < window_.ops.size(); ++op) {
    run_op(window_.ops[op]);
    if (op % 8 != 3) continue;
    pager_.before_fork();
    pager_.after_fork(false);
  }
  run_window();
  EXPECT_EQ(counts().plan_misses, 0u);
  stop_following();
}

INSTANTIATE_TEST_SUITE_P(Tiers, FollowingTest, testing::ValuesIn(kTiers), name_of);

}  // namespace
}  // namespace tensorpager::follow
