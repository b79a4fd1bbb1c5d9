// Queues whose transfers run on two threads of their own, one for page-outs and one for page-ins, each in the order of
// submission; or on the thread that waits for one, if its own has not begun it. With rates it emulates a link: the
// bytes of a transfer take at least as long as they would there, and transfers of one direction follow each other.
//
// The threads start with the first transfer, and are not there in a forked child, which starts its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "tensorpager/transfer/queues.h"
#include "tensorpager/transfer/transfer_times.h"

namespace tensorpager::transfer {

class ThreadedQueues final : public Queues {
 public:
  ThreadedQueues(std::unique_ptr<Tier> tier, base::LinkRates link);
  /// Finishes what is queued.
  ~ThreadedQueues() override;
  ThreadedQueues(const ThreadedQueues&) = delete;
  ThreadedQueues& operator=(const ThreadedQueues&) = delete;

  Slot reserve(base::Bytes bytes) override { return tier_->reserve(bytes); }
  void release(const Slot& slot) noexcept override { tier_->release(slot); }
  Ticket submit(PageOut transfer) override { return submit(Job{.transfer = std::move(transfer)}); }
  Ticket submit(PageIn transfer) override { return submit(Job{.transfer = std::move(transfer)}); }
  void wait(Ticket ticket) override;
  bool may_fail_late() const override { return tier_->may_fail_late(); }
  Fence submitted() const override;
  bool is_done(const Fence& fence) override;
  void host_wait(const Fence& fence) noexcept override;
  bool cancel(Ticket ticket) noexcept override;
  void before_fork() override;
  void after_fork(bool in_child) override;
  base::Bytes reserved() const override { return tier_->reserved(); }
  base::Bytes pinned() const override { return {}; }
  Rates rates() const override;
  std::string name() const override;

 private:
  struct Job {
    std::variant<PageOut, PageIn> transfer;
    Ticket ticket = {};
    bool cancelled = false;
    std::exception_ptr awaited_failure = {};  // of a page-out because of which nothing is read
    std::chrono::steady_clock::time_point submitted = {};

    std::size_t direction() const { return transfer.index(); }
    Fence after() const;
    base::Bytes bytes() const;
  };
  /// Everything that threads share. In a forked child a new one takes its place: the old one's mutex and threads belong
  /// to the parent.
  struct Shared {
    std::mutex mutex;
    std::condition_variable has_work[2];  // by direction: there may be a job that may begin, or it is closing
    std::condition_variable finished;     // a job, of either direction, or the start of a thread
    std::deque<Job> queue[2];             // by direction; the first is under way if `busy`
    std::atomic<std::uint64_t> news{0};   // changes when there is a job, or it is closing
    bool is_watched = false;              // a thread without work looks out for jobs of both directions
    bool busy[2] = {};
    std::uint64_t done[2] = {};                     // the newest ticket that is finished, and so all before it
    std::map<Ticket, std::exception_ptr> failures;  // of tickets not waited for yet
    std::chrono::steady_clock::time_point link_free_from[2];  // owned by the thread that is busy
    TransferTimes times[2];
    std::chrono::steady_clock::time_point idle_from[2];  // when the last transfer was done
    bool closing = false;
    std::thread workers[2];
    bool has_begun[2] = {};  // its thread

    bool is_done(const Fence& fence) const;
    bool may_begin(std::size_t direction) const;
    /// There is a job. Returns whether its thread must be notified, as none looks out.
    bool note_news() {
      news.fetch_add(1, std::memory_order_release);
      return !is_watched;
    }
    /// Page-ins that wait for a failed page-out read nothing.
    void fail_those_after(const Ticket& ticket, const std::exception_ptr& failure);
  };

  Ticket submit(Job job);
  void start();
  void work(Shared& shared, std::size_t direction);
  static void look_out(Shared& shared, std::size_t direction, std::unique_lock<std::mutex>& lock);
  void run_first(Shared& shared, std::size_t direction, std::unique_lock<std::mutex>& lock);
  void transfer(const PageOut& transfer);
  void transfer(const PageIn& transfer);

  std::unique_ptr<Tier> tier_;
  base::LinkRates link_;
  std::uint64_t submitted_[2] = {};  // tickets given out
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
};

}  // namespace tensorpager::transfer
