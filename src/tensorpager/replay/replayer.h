// Rebuilds dropped blocks: runs the calls again that made their contents, and what these were made from, and gives the
// blocks the memory of the results.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/rebuilder.h"
#include "tensorpager/replay/made.h"
#include "tensorpager/replay/recipes.h"

namespace tensorpager::replay {

class Replayer final : public pager::Rebuilder {
 public:
  /// Must outlive this, which lives for ever.
  explicit Replayer(pager::Pager& pager) : pager_(pager) {}

  Recipes& recipes() { return recipes_; }

  bool hold(pager::Block& block) override { return recipes_.hold(block); }
  void release(const pager::Block& block) noexcept override { recipes_.release(block.number); }
  bool expose(pager::Block& block) noexcept override { return recipes_.expose(block); }
  bool replay(const pager::DueReplay& due) noexcept override;
  void end_plan() noexcept override;
  void rebuild(std::uint64_t block) override;
  void settle(std::uint64_t block) override;
  bool settle_elsewhere(std::uint64_t block) noexcept override;
  void died(std::uint64_t block) noexcept override { recipes_.died(block); }

  /// A call was captured for the plan's replays of the op that this thread runs.
  void note_captured(std::shared_ptr<const Call> call);

  /// Around a fork. Rebuilds all first, as far as it can: the child may not have the threads of kernels.
  void before_fork() noexcept;
  void after_fork(bool in_child);
  /// Within these and with the pager's lock held, which is taken before the recipes' everywhere.
  void lock_recipes() { recipes_.lock().lock(); }
  void unlock_recipes() { recipes_.lock().unlock(); }

 private:
  class Thread;
  using Calls = std::vector<std::shared_ptr<const Call>>;
  /// Of one op that the plan replays later.
  struct Captured {
    std::uint64_t op = 0;  // see ThreadState::followed_ops
    Calls calls;           // in the order in which the op made them
  };

  Calls captured(std::uint64_t of);
  bool is_equal(const Call& call, const std::vector<c10::Storage>& expected, const std::vector<Made::One>& made);
  void replay(const Calls& calls, const pager::DueReplay& due) noexcept;

  pager::Pager& pager_;
  Recipes recipes_;
  std::recursive_mutex running_;  // one rebuild at a time: two could make the same
  std::mutex captured_lock_;
  std::unordered_map<std::uint64_t, Captured> captured_;  // by ActionSource::replayed_later
  Made made_;                                             // by the plan's replays; under `running_`
  std::mutex starting_;
  Thread* thread_ = nullptr;  // started by the first fault; never freed
};

}  // namespace tensorpager::replay
