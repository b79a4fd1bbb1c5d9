// Plans followed under the rebinding binding with real bytes: every block comes to be where its plan has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "../plan/synthetic_traces.h"
#include "holders.h"
#include "tensorpager/base/config.h"
#include "tensorpager/follow/plan_cursor.h"
#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::memory {
namespace {

using base::Bytes;
using pager::Access;
using pager::Block;
using pager::PinSet;
using pager::Temporaries;
using trace::index;
using trace::StorageId;

struct FilledStorage : Storage {
  std::uint8_t value = 0;
};

/// A program that does as its trace says.
class Program {
 public:
  Program(const trace::Trace& window, std::unique_ptr<transfer::Queues> queues) : window_(window) {
    const plan::Liveness liveness(window);
    const Bytes budget =
        liveness.floor() + Bytes((liveness.need() - liveness.floor()).count() / 5) + Bytes(base::kPage.count() * 8);
    machine::Machine machine;
    machine.out =
        machine.in = {.latency = machine::Nanoseconds(500), .steps = {{.from = Bytes(0), .bytes_per_second = 1e9}}};
    plan_ = planning::make_planner("pages")->plan({.trace = window, .machine = machine, .budget = budget}).value();
    cursor_ = std::make_unique<follow::PlanCursor>(std::make_shared<const follow::Agenda>(window, plan_));
    pager_.start({.budget = budget, .fuzz = {}}, std::move(queues));
    live_.resize(window.storages.size());
    for (std::uint32_t i = 0; i < window.storages.size(); ++i) {
      if (!window.storages[i].entry || !is_paged(window.storages[i].bytes)) continue;
      make(StorageId{i});
      cursor_->bind(StorageId{i}, *live_[i].block);
    }
    pager_.following().follow(cursor_.get());
  }
  ~Program() {
    pager_.following().follow(nullptr);
    for (std::uint32_t i = 0; i < live_.size(); ++i) destroy(StorageId{i});
    pager_.stop();
  }

  void run_window() {
    for (std::uint32_t at = 0; at < window_.ops.size(); ++at) run_op(at);
  }
  pager::Statistics counts() { return pager_.accounts().statistics(); }
  std::uint64_t misplaced() const { return misplaced_; }
  std::uint64_t checked() const { return checked_; }
  std::uint64_t wrong_bytes() const { return wrong_bytes_; }
  void check_places(bool on) { checks_places_ = on; }

 private:
  static bool is_paged(Bytes size) { return base::round_up(size, base::kPage) >= base::kMinPagedBytes; }

  void run_op(std::uint32_t at) {
    const trace::Op& op = window_.ops[at];
    {
      pager_.boundaries().op_begins();
      PinSet pins(pager_, Temporaries::kKeep, &room_);
      for (const StorageId id : op.reads) see(pins, id, Access::kRead);
      for (const StorageId id : op.writes) see(pins, id, Access::kWrite);
      pins.follow(base::name_hash(op.name));
      pins.admit();
      for (const StorageId id : op.reads) check(id);
      for (const StorageId id : op.writes) {
        check(id);
        if (live_[index(id)].block != nullptr) fill(live_[index(id)]);
      }
      for (const StorageId id : op.births)
        if (is_paged(window_.storages[index(id)].bytes)) make(id);
      // Two parts, as a kernel may do.
      std::vector<Block*> temporaries;
      if (is_paged(op.temporary)) {
        const Bytes half(op.temporary.count() / 2 / base::kPage.count() * base::kPage.count());
        for (const Bytes part : {half, op.temporary - half})
          if (part > Bytes(0)) temporaries.push_back(&pager_.storages().create(part));
      }
      if (checks_places_) compare_with_plan(at);
      for (Block* one : temporaries) pager_.storages().destroy(*one);
    }
    for (const StorageId id : op.deaths) destroy(id);
  }
  /// Addresses of blocks that are used by this op, or were by one since they came.
  void compare_with_plan(std::uint32_t at) {
    for (const plan::Row& row : plan_.rows) {
      if (row.storage == plan::kTemporary || row.begin > at || row.need > at || at >= row.end) continue;
      const FilledStorage& storage = live_[index(row.storage)];
      if (storage.data == nullptr) {
        ++misplaced_;
        continue;
      }
      const std::byte* const end = storage.data + storage.block->charged.count() + row.offset;
      if (!arena_end_) arena_end_ = end;
      ++checked_;
      misplaced_ += end != *arena_end_ ? 1 : 0;
    }
  }
  void make(StorageId id) {
    FilledStorage& storage = live_[index(id)];
    storage.block = &pager_.storages().create(window_.storages[index(id)].bytes);
    storage.data = storage.block->data;
    pager_.storages().claim(*storage.block, static_cast<Storage*>(&storage));
    fill(storage);
  }
  void fill(FilledStorage& storage) {
    std::memset(storage.data, storage.value = ++last_value_, storage.block->size.count());
  }
  void destroy(StorageId id) {
    if (Block* block = std::exchange(live_[index(id)], {}).block) pager_.storages().destroy(*block);
  }
  void see(PinSet& pins, StorageId id, Access access) {
    if (live_[index(id)].block != nullptr) pins.see(*live_[index(id)].block, access);
  }
  void check(StorageId id) {
    const FilledStorage& storage = live_[index(id)];
    if (storage.block == nullptr) return;
    const auto bytes = std::span(storage.data, storage.block->size.count());
    wrong_bytes_ += !std::ranges::all_of(bytes, [&](std::byte byte) { return byte == std::byte{storage.value}; });
  }

  trace::Trace window_;
  plan::Plan plan_;
  arena::AddressSpace space_;
  Storages storages_;
  RebindingBinding binding_{space_, storages_};
  pager::Pager pager_{space_, binding_, std::make_unique<pager::LruPolicy>()};
  pager::WorkingRoom room_;
  std::unique_ptr<follow::PlanCursor> cursor_;
  std::vector<FilledStorage> live_;
  std::uint8_t last_value_ = 0;
  bool checks_places_ = false;
  std::optional<const std::byte*> arena_end_;
  std::uint64_t misplaced_ = 0, checked_ = 0, wrong_bytes_ = 0;
};

trace::Trace paged_trace(unsigned seed) {
  trace::Trace trace = plan::random_trace(seed);
  trace.granule = base::kPage;
  return trace;
}

struct Totals {
  std::uint64_t checked = 0, misplaced = 0, moved = 0, followed = 0, as_planned = 0;
};

/// The third window of 40 programs.
Totals run_programs(bool queued) {
  Totals totals;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto tier = transfer::make_ram_tier();
    Program program(paged_trace(seed), queued ? transfer::make_threaded_queues(std::move(tier))
                                              : transfer::make_synchronous_queues(std::move(tier)));
    program.run_window();
    program.run_window();
    program.check_places(true);
    const pager::Statistics before = program.counts();
    program.run_window();
    const pager::Statistics after = program.counts();
    EXPECT_EQ(program.wrong_bytes(), 0u);
    EXPECT_EQ(after.failed_actions, 0u);
    EXPECT_EQ(after.over_budget_bytes, 0u);
    totals.checked += program.checked();
    totals.misplaced += program.misplaced();
    totals.moved += after.page_ins - before.page_ins;
    totals.followed += after.followed_ops - before.followed_ops;
    totals.as_planned += after.ops_as_planned - before.ops_as_planned;
  }
  return totals;
}

TEST(RebindingPlan, PutsEveryBlockWhereThePlanHasIt) {
  const Totals totals = run_programs(false);
  EXPECT_EQ(totals.misplaced, 0u) << "of " << totals.checked;
  EXPECT_EQ(totals.as_planned, totals.followed);
  EXPECT_GT(totals.checked, 5'000u);
  EXPECT_GT(totals.moved, 100u);
}

// A block that an op needs before it has left, and so before it could come back elsewhere, stays.
TEST(RebindingPlan, PutsNearlyEveryBlockWhereThePlanHasItWhileCopiesTakeTime) {
  const Totals totals = run_programs(true);
  EXPECT_LE(totals.misplaced, totals.checked / 20);
  EXPECT_GE(totals.as_planned, totals.followed * 98 / 100);
  EXPECT_GT(totals.checked, 5'000u);
}

}  // namespace
}  // namespace tensorpager::memory
