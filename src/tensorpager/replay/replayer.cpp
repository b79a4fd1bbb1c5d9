#include "tensorpager/replay/replayer.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tensorpager/pager/pin_set.h"
#include "tensorpager/pager/thread_state.h"
#include "tensorpager/replay/rebuilding.h"
#include "tensorpager/replay/rerun.h"
#include "tensorpager/replay/storages.h"
#include "tensorpager/replay/verifier.h"

namespace tensorpager::replay {
namespace {

using pager::Replaying;

class ReplayingScope {
 public:
  explicit ReplayingScope(Replaying now) : before_(std::exchange(pager::t_state.replaying, now)) {}
  ~ReplayingScope() { pager::t_state.replaying = before_; }
  ReplayingScope(const ReplayingScope&) = delete;
  ReplayingScope& operator=(const ReplayingScope&) = delete;

 private:
  Replaying before_;
};

bool keeps(const pager::DueReplay& due, const Contents& contents) {
  return std::ranges::find(due.keeps, contents.block) != due.keeps.end();
}

}  // namespace

/// Settles blocks for threads that are in the middle of something else.
class Replayer::Thread {
 public:
  explicit Thread(Replayer& replayer) : replayer_(replayer) {
    std::thread([this] { serve(); }).detach();
  }

  bool settle(std::uint64_t block) {
    Request request{.block = block};
    std::unique_lock lock(mutex_);
    requests_.push_back(&request);
    changed_.notify_all();
    changed_.wait(lock, [&] { return request.outcome != Outcome::kPending; });
    return request.outcome == Outcome::kSettled;
  }

 private:
  enum class Outcome : std::uint8_t { kPending, kSettled, kFailed };
  struct Request {
    std::uint64_t block;
    Outcome outcome = Outcome::kPending;
  };

  [[noreturn]] void serve() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !requests_.empty(); });
      Request& request = *requests_.front();
      requests_.pop_front();
      lock.unlock();
      const Outcome outcome = attempt(request.block);
      lock.lock();
      request.outcome = outcome;
      changed_.notify_all();
    }
  }

  Outcome attempt(std::uint64_t block) {
    try {
      replayer_.settle(block);
      return Outcome::kSettled;
    } catch (const std::exception& error) {
      std::fprintf(stderr,
                   "tensorpager: memory of a dropped tensor is accessed outside of ops, and cannot be rebuilt: %s\n",
                   error.what());
      return Outcome::kFailed;
    }
  }

  Replayer& replayer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request*> requests_;
};

void Replayer::rebuild(std::uint64_t block) {
  if (at::in_parallel_region()) {  // kernels would part their work otherwise than the op did
    if (!settle_elsewhere(block)) throw std::runtime_error("a dropped tensor cannot be rebuilt");
    return;
  }
  {
    const std::scoped_lock running(running_);
    const Product product = recipes_.product_of_dropped(block);
    if (!product) return;
    const ReplayingScope scope(Replaying::kOnDemand);
    Rebuilding(pager_, recipes_, product).run();
  }
  if (pager::t_state.replaying == Replaying::kNo) recipes_.let_go();
}

void Replayer::note_captured(std::shared_ptr<const Call> call) {
  const std::scoped_lock lock(captured_lock_);
  Captured& captured = captured_[pager::t_state.replayed_later];
  const std::uint64_t op = pager::t_state.followed_ops;
  if (captured.op != op) {
    captured.op = op;
    captured.calls.clear();
  }
  captured.calls.push_back(std::move(call));
}

Replayer::Calls Replayer::captured(std::uint64_t of) {
  const std::scoped_lock lock(captured_lock_);
  const auto found = captured_.find(of);
  return found == captured_.end() ? Calls() : found->second.calls;
}

bool Replayer::replay(const pager::DueReplay& due) noexcept {
  bool is_expected = false;
  {
    const std::scoped_lock running(running_);
    const ReplayingScope scope(Replaying::kPlanned);
    if (due.is_first) made_.remove([](const Made::One&) { return true; });
    const auto is_to_go = [&](const Made::One& one) {
      return std::ranges::find(due.frees, block_of(one.storage)) != due.frees.end();
    };
    {
      // What goes with the op is charged until its end: for the plan it is dropped then, and must be here still.
      pager::PinSet until_end(pager_, pager::Temporaries::kKeep);
      pager::PinSet op(pager_, pager::Temporaries::kKeep);
      Calls calls = captured(due.of);
      // A replay that keeps nothing changes what another kept, and can only if that was needed.
      const bool is_needed =
          due.keeps.empty() || std::ranges::any_of(calls, [&](const auto& call) {
            return !recipes_.is_compared(*call) || std::ranges::any_of(call->outputs, [&](const Call::Output& output) {
              return keeps(due, output.contents) && recipes_.is_gone(output.contents);
            });
          });
      if (calls.empty() || !is_needed || !can_rerun(recipes_, *calls.front(), made_)) calls.clear();
      for (const auto& call : calls) see_inputs(recipes_, *call, made_, op);
      is_expected = op.follow(due);
      replay(calls, due);
      made_.for_each([&](const Made::One& one) {
        if (is_to_go(one)) until_end.keep(*block_of(one.storage));
      });
    }
    made_.remove(is_to_go);
  }
  if (pager::t_state.replaying == Replaying::kNo) recipes_.let_go();
  return is_expected;
}

void Replayer::end_plan() noexcept {
  // What is freed may call us: it is freed with no lock held.
  std::unordered_map<std::uint64_t, Captured> captured;
  Made made;
  const std::scoped_lock locks(running_, captured_lock_);
  captured.swap(captured_);
  std::swap(made, made_);
}

/// Compares what a plan's row makes with what the program's op had made, where that is still there: it finds wrong
/// rules, and what was written there since that no op announced. Reports a difference.
bool Replayer::is_equal(const Call& call, const std::vector<c10::Storage>& expected,
                        const std::vector<Made::One>& made) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i]) continue;
    const auto found = std::ranges::find(made, call.outputs[i].contents, &Made::One::contents);
    if (found == made.end()) continue;
    pager::PinSet pins(pager_, pager::Temporaries::kKeep);
    for (const c10::Storage& storage : {expected[i], found->storage})
      if (pager::Block* const block = block_of(storage)) pins.see(*block, pager::Access::kRead);
    pins.admit();
    if (have_same_bytes(expected[i], found->storage)) continue;
    report_difference(*call.rule, "differs from what it had made when a plan first replayed it");
    return false;
  }
  return true;
}

/// The calls of one op of the plan. The first time, what they make is compared with what is there, and then takes its
/// place, which is another than the plan's. If a call fails, who needs what it would have made has it rebuilt, and gets
/// the error if that is not possible either.
void Replayer::replay(const Calls& calls, const pager::DueReplay& due) noexcept {
  struct Twice {
    c10::Storage programs, replays;
  };
  std::vector<Twice> twice;
  std::vector<Contents> temporary;
  try {
    bool are_equal = true;
    for (const auto& call : calls) {
      // What the call changes was kept by the row that made it.
      const auto is_kept = [&](const Call::Output& output) {
        return !call->makes_anew(output) || keeps(due, output.contents);
      };
      const Rerun how{.may_overwrite = [](const Contents&) { return true; }, .rebuilds = is_kept};
      const std::vector<c10::Storage> to_compare = recipes_.to_compare(*call);
      if (std::ranges::any_of(to_compare, [](const c10::Storage& one) { return bool(one); }))
        pager_.following().note_comparison();
      std::vector<Made::One> outputs = rerun(pager_, recipes_, *call, made_, how);
      are_equal = is_equal(*call, to_compare, outputs) && are_equal;
      for (Made::One& one : outputs) {
        const auto output = std::ranges::find(call->outputs, one.contents, &Call::Output::contents);
        const c10::Storage& programs = to_compare[static_cast<std::size_t>(output - call->outputs.begin())];
        if (programs) {
          if (is_kept(*output)) twice.push_back({programs, std::move(one.storage)});
          continue;
        }
        if (!is_kept(*output)) temporary.push_back(one.contents);
        made_.add(std::move(one));
      }
    }
    if (are_equal && !calls.empty()) recipes_.note_compared(calls.front()->row);
    for (Twice& one : twice) {
      pager::Block* const block = are_equal ? block_of(one.programs) : nullptr;
      pager::Block* const fresh = block_of(one.replays);
      if (block == nullptr || fresh == nullptr) continue;
      // It may have been paged out since, for what was compared.
      pager::PinSet pins(pager_, pager::Temporaries::kKeep);
      pins.see(*fresh, pager::Access::kWrite);
      pins.admit();
      if (pager_.dropped().drop(*block)) take_over(pager_, {block->number, block->size}, std::move(one.replays));
    }
  } catch (const std::exception&) {
  }
  made_.remove([&](const Made::One& one) { return std::ranges::find(temporary, one.contents) != temporary.end(); });
}

void Replayer::settle(std::uint64_t block) {
  rebuild(block);
  for (const std::uint64_t dependent : recipes_.dependents_of(block)) rebuild(dependent);
}

bool Replayer::settle_elsewhere(std::uint64_t block) noexcept {
  if (pager::t_state.replaying != Replaying::kNo) return false;  // it would wait for itself
  {
    const std::scoped_lock lock(starting_);
    if (thread_ == nullptr) thread_ = new Thread(*this);
  }
  return thread_->settle(block);
}

void Replayer::before_fork() noexcept {
  try {
    for (const std::uint64_t block : pager_.dropped().numbers()) rebuild(block);
  } catch (const std::exception&) {
    // The child rebuilds what it needs.
  }
  running_.lock();
  starting_.lock();
  captured_lock_.lock();
}

void Replayer::after_fork(bool in_child) {
  captured_lock_.unlock();
  starting_.unlock();
  if (in_child) {
    thread_ = nullptr;
    ::new (&running_) std::recursive_mutex;  // the child's thread has another number than its owner
  } else {
    running_.unlock();
  }
}

}  // namespace tensorpager::replay
