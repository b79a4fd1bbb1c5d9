// The pager over the real stable binding and fault handler, and blocks whose contents follow from a seed. At the end of
// every test nothing may be left: no pins, no blocks, no bytes below.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../transfer/forwarding_tier.h"
#include "../transfer/thread_sanitizer.h"
#include "tensorpager/arena/address_space.h"
#include "tensorpager/arena/witness.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/memory/fault_handler.h"
#include "tensorpager/memory/stable_binding.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/transfer/queues.h"

#ifdef __SANITIZE_ADDRESS__
/// Faults are ours; and tests say which signal ends a process.
extern "C" [[gnu::used, gnu::visibility("default")]] inline const char* __asan_default_options() {
  return "handle_segv=0";
}
#endif

namespace tensorpager::pager {

/// Differs from seed to seed and from place to place.
inline std::uint64_t word_at(std::uint64_t seed, std::size_t place) {
  const std::uint64_t mixed = (seed + 1) * 0x9E3779B97F4A7C15 + place * 0xBF58476D1CE4E5B9;
  return mixed ^ (mixed >> 31);
}

/// Writes and reads as user code does: wherever the bytes are.
inline void fill(Block& block, std::uint64_t seed) {
  for (std::size_t at = 0; at + 8 <= block.size.count(); at += 8) {
    const std::uint64_t word = word_at(seed, at);
    std::memcpy(block.data + at, &word, sizeof word);
  }
}
inline bool is_filled(const Block& block, std::uint64_t seed) {
  for (std::size_t at = 0; at + 8 <= block.size.count(); at += 8) {
    const std::uint64_t word = word_at(seed, at);
    if (std::memcmp(block.data + at, &word, sizeof word) != 0) return false;
  }
  return true;
}

/// The machine refuses to move pages as often as it is told to.
class RefusingBinding final : public memory::StableBinding {
 public:
  using StableBinding::StableBinding;
  void relocate(const Relocation& relocation) override {
    if (refusals > 0) {
      --refusals;
      throw base::IoError("mremap", "a block's pages", relocation.bytes(), ENOMEM);
    }
    StableBinding::relocate(relocation);
  }
  int refusals = 0;  // to come
};

inline std::unique_ptr<transfer::Queues> ram_queues() {
  return transfer::make_synchronous_queues(transfer::make_ram_tier());
}

class PagerTest : public testing::Test {
 protected:
  static constexpr base::Bytes kBlock{std::uint64_t{64} << 10};
  static constexpr base::Bytes room_for(std::uint64_t blocks) { return base::Bytes(blocks * kBlock.count()); }

  PagerTest() { memory::install_fault_handler(pager_); }

  void start(base::Bytes budget, std::unique_ptr<transfer::Queues> queues = ram_queues()) {
    Pager::Options options;
    options.budget = budget;
    pager_.start(options, std::move(queues));
  }

  Block& make(base::Bytes size, std::uint64_t seed) {
    Block& block = pager_.storages().create(size);
    blocks_.push_back(&block);
    fill(block, seed);
    return block;
  }
  void destroy(Block& block) {
    blocks_.erase(std::find(blocks_.begin(), blocks_.end(), &block));
    pager_.storages().destroy(block);
  }

  /// As an op with one argument does.
  void write(Block& block, std::uint64_t seed) {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kWrite);
    op.admit();
    fill(block, seed);
  }
  bool holds(Block& block, std::uint64_t seed) {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.admit();
    return is_filled(block, seed);
  }

  Statistics counts() { return pager_.accounts().statistics(); }
  base::Bytes witness() const { return arena::resident_size(space_.begin(), space_.end()); }

  void TearDown() override {
    EXPECT_EQ(counts().pins, 0u);
    EXPECT_EQ(counts().export_bytes, 0u);
    EXPECT_EQ(t_state.top, nullptr);
    while (!blocks_.empty()) destroy(*blocks_.back());
    const Statistics end = counts();
    EXPECT_EQ(end.live_blocks, 0u);
    EXPECT_EQ(end.records, 0u);
    EXPECT_EQ(end.live_bytes, end.slab_bytes);
    EXPECT_EQ(end.resident_bytes, end.slab_bytes);
    EXPECT_EQ(end.spill_bytes, 0u);
    EXPECT_EQ(end.over_budget_bytes, expected_over_budget_.count());
    EXPECT_LE(end.peak_bytes, end.budget_bytes + end.over_budget_bytes);
    EXPECT_LE(witness().count(), end.slab_bytes + end.pooled_bytes);
  }

  arena::AddressSpace space_;
  RefusingBinding binding_{space_};
  Pager pager_{space_, binding_, std::make_unique<LruPolicy>()};
  std::vector<Block*> blocks_;  // those alive
  base::Bytes expected_over_budget_;
};

/// The RAM tier, each of whose transfers takes a random time; for threads.
class SlowTier final : public transfer::ForwardingTier {
 public:
  void write(std::span<const std::byte> from, const transfer::Slot& slot, base::Bytes at) override {
    sleep(out_);
    ForwardingTier::write(from, slot, at);
  }
  void read(const transfer::Slot& slot, base::Bytes at, std::span<std::byte> to) override {
    sleep(in_);
    ForwardingTier::read(slot, at, to);
  }
  bool may_fail_late() const override { return true; }

 private:
  static void sleep(std::mt19937& random) {
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  }

  std::mt19937 out_{1}, in_{2};  // each for one thread
};

struct Tier {
  const char* name;
  std::unique_ptr<transfer::Queues> (*make)();
};

inline constexpr Tier kTiers[] = {
    {"File", [] { return transfer::make_synchronous_queues(transfer::make_file_tier(testing::TempDir())); }},
    {"Ram", [] { return ram_queues(); }},
    {"QueuedFile", [] { return transfer::make_threaded_queues(transfer::make_file_tier(testing::TempDir())); }},
    {"Slow", [] { return transfer::make_threaded_queues(std::make_unique<SlowTier>()); }},
};

inline std::string name_of(const testing::TestParamInfo<Tier>& instance) { return instance.param.name; }

}  // namespace tensorpager::pager
