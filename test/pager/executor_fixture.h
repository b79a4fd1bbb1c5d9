// A pager that follows a script, over a tier that is slow to write, or holds what it writes.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "pager_fixture.h"
#include "script.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {

/// What the tier is told to do.
struct Told {
  std::atomic<bool> fails{false};  // page-outs
  std::atomic<bool> fails_to_read{false};
  std::atomic<int> failed{0};
  std::atomic<bool> holds{false};  // page-outs that have begun
  std::atomic<int> begun{0};
};

/// The RAM tier, slow to write.
class SlowToWrite final : public transfer::ForwardingTier {
 public:
  explicit SlowToWrite(Told& told) : told_(told) {}

  void write(std::span<const std::byte> from, const transfer::Slot& slot, base::Bytes at) override {
    ++told_.begun;
    do std::this_thread::sleep_for(std::chrono::milliseconds(5));
    while (told_.holds);
    if (told_.fails) fail("pwrite", from.size(), ENOSPC);
    ForwardingTier::write(from, slot, at);
  }
  void read(const transfer::Slot& slot, base::Bytes at, std::span<std::byte> to) override {
    if (told_.fails_to_read) fail("pread", to.size(), EIO);
    ForwardingTier::read(slot, at, to);
  }
  bool may_fail_late() const override { return true; }

 private:
  [[noreturn]] void fail(const char* call, std::size_t bytes, int error) {
    ++told_.failed;
    throw base::IoError(call, "the tier", base::Bytes(bytes), error);
  }

  Told& told_;
};

class ExecutorTest : public PagerTest {
 protected:
  void start_following(base::Bytes budget) {
    start(budget, transfer::make_threaded_queues(std::make_unique<SlowToWrite>(told_)));
    pager_.following().follow(&script_);
  }
  void TearDown() override {
    if (goes_on_.joinable()) goes_on_.join();
    pager_.following().follow(nullptr);
    PagerTest::TearDown();
  }

  void run_op(Block* written = nullptr) {
    pager_.boundaries().op_begins();
    PinSet pins(pager_, Temporaries::kKeep);
    if (written != nullptr) pins.see(*written, Access::kWrite);
    pins.follow(base::name_hash("op"));
    pins.admit();
  }
  /// It leaves, the plan awaits that, and an op has it back, clean.
  void leave_and_come_back(Block& block, Kind await) {
    script_.at_end = {{Kind::kPageOut, &block}};
    run_op(&block);
    script_.at_begin = {{.kind = await, .block = &block, .number = block.number}};
    run_op();
    {
      PinSet op(pager_, Temporaries::kKeep);
      op.see(block, Access::kRead);
      op.admit();
    }
    ASSERT_TRUE(block.is_clean());
  }
  void take_away(Block& block) {
    script_.at_end = {{Kind::kPageOut, &block}};
    run_op(&block);
    ASSERT_TRUE(block.is_absent());
  }
  /// Whether the kernel has pages at the block's address.
  static bool is_mapped(const Block& block) {
    unsigned char in_core = 0;
    return ::mincore(block.data, base::kPage.count(), &in_core) == 0 && (in_core & 1) != 0;
  }
  /// Without any op.
  template <typename Condition>
  bool comes_to(Condition&& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  /// Lets go of the page-outs that are held, meanwhile.
  void go_on_soon() {
    goes_on_ = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      told_.holds = false;
    });
  }

  Told told_;
  Script script_;

 private:
  std::thread goes_on_;
};

}  // namespace tensorpager::pager
