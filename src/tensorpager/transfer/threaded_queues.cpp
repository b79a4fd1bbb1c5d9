#include "tensorpager/transfer/threaded_queues.h"

#include <chrono>
#include <cmath>

#include "tensorpager/base/blocked_signals.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

using base::Bytes;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kOut = 0;
constexpr std::size_t kIn = 1;

std::size_t direction_of(const Ticket& ticket) { return static_cast<std::size_t>(ticket.queue); }
Ticket ticket_of(std::size_t direction, std::uint64_t number) {
  return {static_cast<device::Queue>(direction), number};
}

Clock::duration time_of(Bytes bytes, Bytes per_second) {
  if (per_second >= base::kUnlimited) return {};
  const double seconds = static_cast<double>(bytes.count()) / static_cast<double>(per_second.count());
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

ThreadedQueues::ThreadedQueues(std::unique_ptr<Tier> tier, base::LinkRates link)
    : tier_(std::move(tier)), link_(link) {}

ThreadedQueues::~ThreadedQueues() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closing = true;
    ++shared_->news;
  }
  for (std::condition_variable& one : shared_->has_work) one.notify_all();
  for (std::thread& worker : shared_->workers)
    if (worker.joinable()) worker.join();
}

std::string ThreadedQueues::name() const {
  return link_.is_limited() ? tier_->name() + " at " + base::format_link(link_) : tier_->name();
}

Fence ThreadedQueues::Job::after() const {
  const PageIn* const in = std::get_if<PageIn>(&transfer);
  return in != nullptr ? in->after : Fence();
}

Bytes ThreadedQueues::Job::bytes() const {
  if (const PageOut* const out = std::get_if<PageOut>(&transfer)) return Bytes(out->from.size());
  Bytes sum;
  for (const std::span<std::byte> part : std::get<PageIn>(transfer).to) sum += Bytes(part.size());
  return sum;
}

Ticket ThreadedQueues::submit(Job job) {
  start();
  const std::size_t direction = job.direction();
  const Ticket ticket = job.ticket = ticket_of(direction, submitted_[direction] + 1);
  job.submitted = Clock::now();
  bool is_to_be_notified = false;
  {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& [failed, failure] : shared_->failures)
      if (direction_of(failed) == kOut && job.after().covers(failed)) job.awaited_failure = failure;
    shared_->queue[direction].push_back(std::move(job));
    is_to_be_notified = shared_->note_news();
  }
  ++submitted_[direction];
  if (is_to_be_notified) shared_->has_work[direction].notify_one();
  return ticket;
}

void ThreadedQueues::start() {
  if (shared_->workers[kOut].joinable() && shared_->workers[kIn].joinable()) return;
  const base::BlockedSignals blocked;
  try {
    for (const std::size_t direction : {kOut, kIn})
      if (!shared_->workers[direction].joinable())
        shared_->workers[direction] =
            std::thread([this, shared = shared_.get(), direction] { work(*shared, direction); });
  } catch (const std::system_error& error) {
    throw base::IoError("pthread_create", "a thread for transfers", Bytes(0), error.code().value());
  }
}

void ThreadedQueues::work(Shared& shared, std::size_t direction) {
  std::unique_lock lock(shared.mutex);
  shared.has_begun[direction] = true;
  shared.finished.notify_all();
  for (;;) {
    look_out(shared, direction, lock);
    shared.has_work[direction].wait(
        lock, [&] { return shared.may_begin(direction) || (shared.closing && shared.queue[direction].empty()); });
    if (shared.queue[direction].empty()) return;
    run_first(shared, direction, lock);
  }
}

/// Who wakes a thread that sleeps makes a system call, on a virtual machine of 10 to 20 us, and that would be an op.
/// Ops that move blocks follow each other closely: so a thread without work looks out for a while, and wakes the other
/// one if the job is of its direction. It gives its core to any other thread, and does not look out while the other
/// works.
void ThreadedQueues::look_out(Shared& shared, std::size_t direction, std::unique_lock<std::mutex>& lock) {
  constexpr auto kWhile = std::chrono::microseconds(200);
  const std::size_t other = 1 - direction;
  bool has_news = true;
  while (has_news && !shared.may_begin(direction) && !shared.busy[other] && !shared.is_watched && !shared.closing) {
    shared.is_watched = true;
    const std::uint64_t known = shared.news.load(std::memory_order_relaxed);
    lock.unlock();
    const Clock::time_point end = Clock::now() + kWhile;
    do {
      std::this_thread::yield();
      has_news = shared.news.load(std::memory_order_acquire) != known;
    } while (!has_news && Clock::now() < end);
    lock.lock();
    shared.is_watched = false;
    if (shared.may_begin(other)) shared.has_work[other].notify_one();
  }
}

bool ThreadedQueues::Shared::is_done(const Fence& fence) const {
  return fence.up_to(device::Queue::kPageOuts) <= done[kOut] && fence.up_to(device::Queue::kPageIns) <= done[kIn];
}

bool ThreadedQueues::Shared::may_begin(std::size_t direction) const {
  return !queue[direction].empty() && !busy[direction] && is_done(queue[direction].front().after());
}

void ThreadedQueues::Shared::fail_those_after(const Ticket& ticket, const std::exception_ptr& failure) {
  for (Job& job : queue[kIn])
    if (job.after().covers(ticket)) job.awaited_failure = failure;
}

/// The first of the queue, which may begin.
void ThreadedQueues::run_first(Shared& shared, std::size_t direction, std::unique_lock<std::mutex>& lock) {
  const Job job = shared.queue[direction].front();
  std::exception_ptr failure = job.awaited_failure;
  if (!failure && !job.cancelled) {
    shared.busy[direction] = true;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    Clock::time_point& free_from = shared.link_free_from[direction];
    const Bytes bytes = job.bytes();
    free_from = std::max(free_from, begin) + time_of(bytes, direction == kOut ? link_.out : link_.in);
    try {
      std::visit([this](const auto& one) { transfer(one); }, job.transfer);
    } catch (...) {
      failure = std::current_exception();
    }
    std::this_thread::sleep_until(free_from);
    lock.lock();
    shared.busy[direction] = false;
    // From when it could have begun: the wake-up of its thread is part of it.
    const Clock::time_point from =
        !job.after().is_empty() ? begin : std::max(job.submitted, shared.idle_from[direction]);
    const Clock::time_point end = shared.idle_from[direction] = Clock::now();
    shared.times[direction].add(bytes, std::chrono::duration<double>(end - std::min(from, begin)).count());
  }
  if (failure && direction == kOut) shared.fail_those_after(job.ticket, failure);
  if (failure && !shared.queue[direction].front().cancelled) shared.failures.emplace(job.ticket, failure);
  shared.queue[direction].pop_front();
  shared.done[direction] = job.ticket.number;
  shared.finished.notify_all();
  for (const std::size_t i : {kOut, kIn})
    if (shared.may_begin(i) && shared.note_news()) shared.has_work[i].notify_one();
}

void ThreadedQueues::transfer(const PageOut& transfer) {
  if (transfer.first) transfer.first();
  tier_->write(transfer.from, transfer.slot, transfer.at);
}

void ThreadedQueues::transfer(const PageIn& transfer) {
  Bytes at = transfer.at;
  for (const std::span<std::byte> part : transfer.to) {
    tier_->read(transfer.slot, at, part);
    at += Bytes(part.size());
  }
  if (transfer.then) transfer.then();
}

void ThreadedQueues::wait(Ticket ticket) {
  if (ticket.is_finished()) return;
  host_wait(ticket);
  const std::lock_guard lock(shared_->mutex);
  const auto failure = shared_->failures.extract(ticket);
  if (failure) std::rethrow_exception(failure.mapped());
}

void ThreadedQueues::host_wait(const Fence& fence) noexcept {
  std::unique_lock lock(shared_->mutex);
  while (!shared_->is_done(fence)) {
    // If its thread is not there yet, the thread that waits anyway does the work.
    const auto is_awaited = [&](std::size_t direction) {
      return shared_->may_begin(direction) && fence.covers(shared_->queue[direction].front().ticket);
    };
    if (is_awaited(kOut))
      run_first(*shared_, kOut, lock);
    else if (is_awaited(kIn))
      run_first(*shared_, kIn, lock);
    else
      shared_->finished.wait(lock);
  }
}

Fence ThreadedQueues::submitted() const {
  return Fence(ticket_of(kOut, submitted_[kOut])) | ticket_of(kIn, submitted_[kIn]);
}

bool ThreadedQueues::is_done(const Fence& fence) {
  const std::lock_guard lock(shared_->mutex);
  return shared_->is_done(fence);
}

bool ThreadedQueues::cancel(Ticket ticket) noexcept {
  if (ticket.is_finished()) return false;
  const std::size_t direction = direction_of(ticket);
  std::unique_lock lock(shared_->mutex);
  std::deque<Job>& queue = shared_->queue[direction];
  for (Job& job : queue) {
    if (job.ticket != ticket) continue;
    job.cancelled = true;
    if (&job != &queue.front() || !shared_->busy[direction]) return true;
    break;
  }
  shared_->finished.wait(lock, [&] { return shared_->done[direction] >= ticket.number; });
  shared_->failures.erase(ticket);
  return false;
}

Queues::Rates ThreadedQueues::rates() const {
  const std::lock_guard lock(shared_->mutex);
  return {.out = shared_->times[kOut].fit(), .in = shared_->times[kIn].fit()};
}

void ThreadedQueues::before_fork() {
  std::unique_lock lock(shared_->mutex);
  // In the child no thread is half way through anything: one that starts may hold a lock of the run-time library.
  const auto rests = [&](std::size_t direction) {
    return shared_->queue[direction].empty() &&
           (shared_->has_begun[direction] || !shared_->workers[direction].joinable());
  };
  shared_->finished.wait(lock, [&] { return rests(kOut) && rests(kIn); });
  static_cast<void>(lock.release());
}

void ThreadedQueues::after_fork(bool in_child) {
  if (in_child) {
    auto fresh = std::make_unique<Shared>();
    for (const std::size_t direction : {kOut, kIn}) fresh->done[direction] = shared_->done[direction];
    fresh->failures = std::move(shared_->failures);
    [[maybe_unused]] const Shared* left_behind =
        shared_.release();  // its threads are none of this process: it cannot be destroyed
    shared_ = std::move(fresh);
  } else {
    shared_->mutex.unlock();
  }
  tier_->after_fork();
}

std::unique_ptr<Queues> make_threaded_queues(std::unique_ptr<Tier> tier, base::LinkRates link) {
  return std::make_unique<ThreadedQueues>(std::move(tier), link);
}

}  // namespace tensorpager::transfer
