#include "tensorpager/replay/replayer.h"

#include <ATen/Parallel.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tensorpager/pager/thread_state.h"
#include "tensorpager/replay/rebuilding.h"

namespace tensorpager::replay {
namespace {

class IsRebuilding {
 public:
  IsRebuilding() : before_(std::exchange(pager::t_state.is_rebuilding, true)) {}
  ~IsRebuilding() { pager::t_state.is_rebuilding = before_; }
  IsRebuilding(const IsRebuilding&) = delete;
  IsRebuilding& operator=(const IsRebuilding&) = delete;

 private:
  bool before_;
};

}  // namespace

/// Settles blocks for threads that are in the middle of something else.
class Replayer::Thread {
 public:
  explicit Thread(Replayer& replayer) : replayer_(replayer) {
    std::thread([this] { serve(); }).detach();
  }

  bool settle(pager::Block& block) {
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
    pager::Block& block;
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

  Outcome attempt(pager::Block& block) {
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

void Replayer::rebuild(pager::Block& block) {
  if (at::in_parallel_region()) {  // kernels would part their work otherwise than the op did
    if (!settle_elsewhere(block)) throw std::runtime_error("a dropped tensor cannot be rebuilt");
    return;
  }
  {
    const std::scoped_lock running(running_);
    const Product product = recipes_.product_of_dropped(block.number);
    if (!product) return;
    const IsRebuilding scope;
    Rebuilding(pager_, recipes_, product).run();
  }
  if (!pager::t_state.is_rebuilding) recipes_.let_go();
}

void Replayer::settle(pager::Block& block) {
  rebuild(block);
  for (pager::Block* const dependent : recipes_.dependents_of(block.number)) rebuild(*dependent);
}

bool Replayer::settle_elsewhere(pager::Block& block) noexcept {
  if (pager::t_state.is_rebuilding) return false;  // it would wait for itself
  {
    const std::scoped_lock lock(starting_);
    if (thread_ == nullptr) thread_ = new Thread(*this);
  }
  return thread_->settle(block);
}

void Replayer::before_fork() noexcept {
  try {
    for (pager::Block* const block : pager_.dropped()) rebuild(*block);
  } catch (const std::exception&) {
    // The child rebuilds what it needs.
  }
  running_.lock();
  recipes_.lock().lock();
  starting_.lock();
}

void Replayer::after_fork(bool in_child) {
  starting_.unlock();
  recipes_.lock().unlock();
  if (in_child) {
    thread_ = nullptr;
    ::new (&running_) std::recursive_mutex;  // the child's thread has another number than its owner
  } else {
    running_.unlock();
  }
}

}  // namespace tensorpager::replay
