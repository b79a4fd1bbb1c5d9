// What must hold of every binding over every tier, whichever call of the tier fails, early or late: an op that cannot
// have its bytes says so and may be run again, and no block ever reads as anything but what was written last.
//
// A random program of ops, births, deaths, exports and planned moves runs over a tier that takes its time. Its blocks'
// contents follow from seeds, so each read is checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../pager/executor_fixture.h"
#include "../random_cases.h"
#include "../transfer/failing_waits.h"
#include "holders.h"
#include "tensorpager/memory/fault_handler.h"
#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/memory/stable_binding.h"

namespace tensorpager::memory {
namespace {

using namespace base;
using pager::Access;
using pager::Block;
using transfer::Queues;
using transfer::Slot;
using transfer::Ticket;
using transfer::Tier;

enum class Call { kNone, kReserve, kWrite, kWaitForWrite, kRead, kWaitForRead };

/// Which call fails, once, and how often one did.
struct Failure {
  std::atomic<Call> call{Call::kNone};
  std::atomic<int> countdown{0};
  std::atomic<int> fired{0};

  void check(Call now, Bytes bytes) {
    if (now != call || --countdown != 0) return;
    ++fired;
    throw IoError("the tier", "a call that fails", bytes, ENOSPC);
  }
};

/// A tier that fails where it is told to, and takes its time. If it fails at waits, as the threads over it do that, the
/// bytes were copied.
class FailingTier final : public transfer::ForwardingTier {
 public:
  FailingTier(std::unique_ptr<Tier> tier, Failure& failure, bool fails_at_waits)
      : ForwardingTier(std::move(tier)), failure_(failure), fails_at_waits_(fails_at_waits) {}

  Slot reserve(Bytes bytes) override {
    failure_.check(Call::kReserve, bytes);
    return ForwardingTier::reserve(bytes);
  }
  void write(std::span<const std::byte> from, const Slot& slot, Bytes at) override {
    sleep(delays_out_);
    failure_.check(Call::kWrite, slot.bytes);
    ForwardingTier::write(from, slot, at);
    if (fails_at_waits_) failure_.check(Call::kWaitForWrite, Bytes(0));
  }
  void read(const Slot& slot, Bytes at, std::span<std::byte> to) override {
    sleep(delays_in_);
    failure_.check(Call::kRead, slot.bytes);
    ForwardingTier::read(slot, at, to);
    if (fails_at_waits_) failure_.check(Call::kWaitForRead, Bytes(0));
  }
  bool may_fail_late() const override {
    return ForwardingTier::may_fail_late() || failure_.call == Call::kWrite || failure_.call == Call::kWaitForWrite;
  }

 private:
  static void sleep(std::mt19937& random) {
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }

  Failure& failure_;
  bool fails_at_waits_;
  std::mt19937 delays_out_{1}, delays_in_{2};  // each for one thread
};

/// Counts the page-ins that are queued behind a page-out.
class CountingQueues final : public transfer::ForwardingQueues {
 public:
  CountingQueues(std::unique_ptr<Queues> queues, int& ordered)
      : ForwardingQueues(std::move(queues)), ordered_(ordered) {}

  using ForwardingQueues::submit;
  Ticket submit(transfer::PageIn transfer) override {
    ordered_ += transfer.after.is_empty() ? 0 : 1;
    return ForwardingQueues::submit(std::move(transfer));
  }

 private:
  int& ordered_;
};

struct TransferCase {
  std::string name;
  std::unique_ptr<pager::Binding> (*make_binding)(arena::AddressSpace&, Storages&);
  std::unique_ptr<Tier> (*make_tier)();
  bool is_queued;
  Call call;
};

void PrintTo(const TransferCase& one, std::ostream* out) { *out << one.name; }

class TransferContract : public testing::TestWithParam<TransferCase> {
 protected:
  static constexpr std::uint64_t kBudget = 8;  // blocks
  static constexpr std::size_t kLeast = 12, kMost = 20;

  /// What the program knows of a block.
  struct Tensor {
    Block* block;
    std::unique_ptr<Storage> storage;
    std::uint64_t seed;
    bool is_exported;
  };

  TransferContract() { install_fault_handler(pager_); }

  void SetUp() override {
    failure_.call = GetParam().call;
    std::unique_ptr<Queues> queues = make_queues();
    may_fail_late_ = queues->may_fail_late();
    pager_.start({.budget = Bytes(kBudget * kBlock.count()), .fuzz = {}}, std::move(queues));
    while (tensors_.size() < kLeast) make();
  }
  void TearDown() override {
    failure_.countdown = 0;
    pager_.following().follow(nullptr);
    while (!tensors_.empty()) destroy(tensors_.size() - 1);
    pager_.stop();
    const pager::Statistics end = pager_.accounts().statistics();
    EXPECT_EQ(end.pins, 0u);
    EXPECT_EQ(end.live_blocks, 0u);
    EXPECT_EQ(end.records, 0u);
    EXPECT_EQ(end.resident_bytes, end.slab_bytes);
    EXPECT_EQ(end.spill_bytes, 0u);
    EXPECT_EQ(end.over_budget_bytes, 0u);
  }

  std::unique_ptr<Queues> make_queues() {
    auto tier = std::make_unique<FailingTier>(GetParam().make_tier(), failure_, GetParam().is_queued);
    if (GetParam().is_queued)
      return std::make_unique<CountingQueues>(transfer::make_threaded_queues(std::move(tier)), ordered_);
    return std::make_unique<transfer::FailingWaits>(std::move(tier), [this](transfer::Direction way) {
      failure_.check(way == transfer::Direction::kOut ? Call::kWaitForWrite : Call::kWaitForRead, Bytes(0));
    });
  }

  std::size_t draw(std::size_t below) { return random_() % below; }
  Tensor& any() { return tensors_[draw(tensors_.size())]; }

  /// Fills a block of its own, which an op makes.
  void make() {
    pager_.boundaries().op_begins();
    pager::PinSet op(pager_, pager::Temporaries::kKeep);
    op.follow(base::name_hash("make"));
    op.admit();
    Block& block = pager_.storages().create(kBlock);
    auto storage = std::make_unique<Storage>(Storage{&block, block.data});
    pager_.storages().claim(block, storage.get());
    tensors_.push_back({&block, std::move(storage), ++seeds_, false});
    fill(block, seeds_);
  }
  void destroy(std::size_t i) {
    if (tensors_[i].is_exported) pager_.outside().unpin_export(*tensors_[i].block);
    pager_.storages().destroy(*tensors_[i].block);
    tensors_.erase(tensors_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  /// Reads two and writes a third, and now and then needs room in one piece, for which its arguments are moved.
  void run_op() {
    Tensor &first = any(), &second = any(), &written = any();
    pager_.boundaries().op_begins();
    pager::PinSet op(pager_, pager::Temporaries::kKeep, &room_);
    op.see(*first.block, Access::kRead);
    op.see(*second.block, Access::kRead);
    op.see(*written.block, Access::kWrite);
    op.follow(base::name_hash("op"));
    op.admit();
    ASSERT_TRUE(pager::is_filled(*first.block, first.seed)) << "block " << first.block->number;
    ASSERT_TRUE(pager::is_filled(*second.block, second.seed)) << "block " << second.block->number;
    written.seed = ++seeds_;
    pager::fill(*written.block, written.seed);
    if (draw(4) == 0) use_scratch();
  }
  void use_scratch() {
    try {
      Block& scratch = pager_.storages().create(Bytes(3 * kBlock.count()));
      pager::fill(scratch, ++seeds_);
      pager_.storages().destroy(scratch);
    } catch (const OverBudget&) {
      // Exports may leave no piece so large.
    }
  }
  void plan(std::vector<pager::Action>& actions) {
    using Kind = pager::Action::Kind;
    Block &out = *any().block, &in = *any().block;
    const std::uint64_t offset = draw(kBudget) * kBlock.count();
    const pager::Action page_in{.kind = Kind::kPageIn, .block = &in, .offset = offset};
    switch (draw(6)) {
      case 0:
      case 1:
        actions.push_back({Kind::kPageOut, &out});
        actions.push_back({.kind = Kind::kAwaitQueued, .block = &out, .number = out.number});
        actions.push_back(page_in);
        break;
      case 2:
        actions.push_back({Kind::kPageOut, &out});
        actions.push_back({.kind = Kind::kPageIn, .block = &out, .offset = offset});  // it is to be elsewhere
        break;
      case 3:
        actions.push_back(
            {.kind = draw(2) == 0 ? Kind::kAwait : Kind::kAwaitCopy, .block = &out, .number = out.number});
        actions.push_back({Kind::kDrop, &in});
        break;
      case 4:
        actions.push_back(page_in);
        actions.push_back({Kind::kNeed, &in});
        break;
      default:
        actions.push_back({.kind = draw(2) == 0 ? Kind::kMove : Kind::kClearAndMove, .block = &in, .offset = offset});
    }
  }
  /// Anything that a program does between ops.
  void do_other() {
    switch (draw(24)) {
      case 0:
      case 1:
      case 2:
        if (tensors_.size() > kLeast) return destroy(draw(tensors_.size()));
        [[fallthrough]];
      case 3:
      case 4:
        if (tensors_.size() < kMost) return make();
        return;
      case 5: {
        Tensor& tensor = any();
        if (!tensor.is_exported) pager_.outside().pin_export(*tensor.block);
        tensor.is_exported = true;
        EXPECT_TRUE(pager::is_filled(*tensor.block, tensor.seed));
        return;
      }
      case 6:
        return pager_.page_out_all();
      case 7:
        pager_.following().follow(nullptr);
        return run_op();
      default:
        pager_.following().follow(&script_);
        for (Tensor& tensor : tensors_)
          if (std::exchange(tensor.is_exported, false)) pager_.outside().unpin_export(*tensor.block);
    }
  }
  /// Places, if no copy may fail late, or pages.
  bool passes_on() const {
    if (!GetParam().is_queued) return false;
    return binding_->placed() == nullptr || (binding_->placed()->passes_places_on() && !may_fail_late_);
  }
  void step() {
    if (draw(2) == 0) plan(script_.at_begin);
    if (draw(2) == 0) plan(script_.at_end);
    script_.expects = draw(2) == 0;  // else the pager moves arguments together where they leave no room
    run_op();
    script_.at_begin.clear();
    script_.at_end.clear();
    do_other();
  }

  std::mt19937 random_{7};
  pager::WorkingRoom room_;
  Failure failure_;
  bool may_fail_late_ = false;
  int ordered_ = 0;
  arena::AddressSpace space_;
  Storages storages_;
  std::unique_ptr<pager::Binding> binding_ = GetParam().make_binding(space_, storages_);
  pager::Pager pager_{space_, *binding_, std::make_unique<pager::LruPolicy>()};
  pager::Script script_;
  std::vector<Tensor> tensors_;
  std::uint64_t seeds_ = 0;
};

TEST_P(TransferContract, NoByteIsLostAndNoneIsOld) {
  const unsigned steps = passes_on() ? random_cases(3000, 900) : 300;
  int refused = 0;
  pager_.following().follow(&script_);
  for (unsigned i = 0; i < steps; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    if (i % 8 == 0) failure_.countdown = static_cast<int>(1 + draw(4));
    try {
      step();
    } catch (const IoError&) {
      ++refused;
    }
    script_.at_begin.clear();
    script_.at_end.clear();
    if (HasFatalFailure()) return;
    ASSERT_EQ(pager_.accounts().statistics().pins, 0u);
  }
  failure_.countdown = 0;
  for (const Tensor& tensor : tensors_) {
    pager::PinSet op(pager_, pager::Temporaries::kKeep);
    op.see(*tensor.block, Access::kRead);
    op.admit();
    EXPECT_TRUE(pager::is_filled(*tensor.block, tensor.seed));
  }
  if (GetParam().call == Call::kNone) {
    EXPECT_EQ(refused, 0);
  } else {
    EXPECT_GT(failure_.fired, 10) << "the call that was to fail was hardly made";
  }
  if (passes_on()) {
    EXPECT_GT(ordered_, static_cast<int>(steps / 150)) << "hardly anything was passed on";
  } else {
    EXPECT_EQ(ordered_, 0);
  }
}

std::vector<TransferCase> transfer_cases() {
  struct NamedBinding {
    const char* name;
    decltype(TransferCase::make_binding) make;
  };
  static constexpr NamedBinding kBindings[] = {
      {"Stable",
       [](arena::AddressSpace& space, Storages&) -> std::unique_ptr<pager::Binding> {
         return std::make_unique<StableBinding>(space);
       }},
      {"Rebinding",
       [](arena::AddressSpace& space, Storages& storages) -> std::unique_ptr<pager::Binding> {
         return std::make_unique<RebindingBinding>(space, storages);
       }},
      {"PassingPlacesOn", [](arena::AddressSpace& space, Storages& storages) -> std::unique_ptr<pager::Binding> {
         return std::make_unique<RebindingBinding>(space, storages, PlaceReuse::kDuringCopy);
       }}};
  struct NamedTier {
    const char* name;
    decltype(TransferCase::make_tier) make;
    bool is_queued;
  };
  static constexpr auto kMakeFile = [] { return transfer::make_file_tier(testing::TempDir()); };
  static constexpr auto kMakeRam = [] { return transfer::make_ram_tier(); };
  static constexpr NamedTier kTiers[] = {{"File", kMakeFile, false},
                                         {"Ram", kMakeRam, false},
                                         {"QueuedFile", kMakeFile, true},
                                         {"QueuedRam", kMakeRam, true}};
  static constexpr std::pair<const char*, Call> kCalls[] = {
      {"NothingFails", Call::kNone}, {"ReserveFails", Call::kReserve},
      {"WriteFails", Call::kWrite},  {"WaitForWriteFails", Call::kWaitForWrite},
      {"ReadFails", Call::kRead},    {"WaitForReadFails", Call::kWaitForRead}};
  std::vector<TransferCase> all;
  for (const NamedBinding& binding : kBindings)
    for (const NamedTier& tier : kTiers)
      for (const auto& [name, call] : kCalls)
        all.push_back({std::string(binding.name) + tier.name + name, binding.make, tier.make, tier.is_queued, call});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, TransferContract, testing::ValuesIn(transfer_cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace tensorpager::memory
