#include "tensorpager/fake_cuda/queues.h"

#include <algorithm>

namespace tensorpager::fake_cuda {

Queues::Queues(int queues, int queues_per_device, std::string_view schedule, long delay_us, RaceChecker* races,
               const std::optional<Speeds>& speeds)
    : tasks_(queues, queues_per_device),
      schedule_(make_schedule(tasks_, schedule, delay_us)),
      races_(races),
      clocks_(static_cast<std::size_t>(queues), Clock(static_cast<std::size_t>(queues))),
      host_clock_(static_cast<std::size_t>(queues)) {
  if (speeds) card_clock_.emplace(*speeds, queues);
}

void Queues::enqueue(int queue, const char* name, const std::vector<Range>& touched, std::function<void()> kernel,
                     const Work& work) {
  Lock lock = tasks_.lock();
  if (card_clock_) card_clock_->add(queue, work);
  const std::uint64_t position = tasks_.push(lock, queue, {.name = name, .kernel = std::move(kernel)});
  Clock& before = clock(queue);
  join(before, host_clock_);
  if (races_) races_->check(queue, name, position, before, touched);
  before[static_cast<std::size_t>(queue)] = position;
  ++counts_.kernels;
  schedule_->task_queued(lock, queue);
}

Ticket Queues::record(int queue) {
  const Lock lock = tasks_.lock();
  join(clock(queue), host_clock_);
  return {.queue = queue,
          .position = tasks_.queued(lock, queue),
          .clock = clock(queue),
          .recorded_at = card_clock_ ? card_clock_->now(queue) : now()};
}

void Queues::block(int queue, const Ticket& ticket) {
  if (ticket.queue < 0 || ticket.queue == queue) return;
  Lock lock = tasks_.lock();
  ++counts_.stream_waits;
  join(clock(queue), ticket.clock);
  if (card_clock_) card_clock_->block(queue, ticket.recorded_at);
  if (tasks_.finished(lock, ticket.queue) >= ticket.position) return;
  const Task wait{.name = "a wait", .awaited_queue = ticket.queue, .awaited_position = ticket.position};
  clock(queue)[static_cast<std::size_t>(queue)] = tasks_.push(lock, queue, wait);
  schedule_->task_queued(lock, queue);
}

bool Queues::is_done(const Ticket& ticket) {
  if (ticket.queue < 0) return true;
  Lock lock = tasks_.lock();
  if (tasks_.finished(lock, ticket.queue) >= ticket.position) {
    join(host_clock_, ticket.clock);
    return true;
  }
  schedule_->let_time_pass(lock);
  return false;
}

void Queues::wait_uncounted(const Ticket& ticket) {
  if (ticket.queue < 0) return;
  TaskQueues::refuse_inside_kernel("a wait");
  Lock lock = tasks_.lock();
  schedule_->wait_for(lock, ticket.queue, ticket.position);
  if (card_clock_) card_clock_->host_waits(ticket.recorded_at);
  join(host_clock_, ticket.clock);
}

void Queues::wait(const Ticket& ticket) {
  {
    const Lock lock = tasks_.lock();
    ++counts_.host_waits;
  }
  wait_uncounted(ticket);
}

void Queues::wait_for_device(int device) {
  const int first = device * tasks_.queues_per_device();
  const int end = std::min(first + tasks_.queues_per_device(), tasks_.count());
  for (int queue = first; queue < end; ++queue) wait_uncounted(record(queue));
  const Lock lock = tasks_.lock();
  ++counts_.host_waits;
}

void Queues::wait_for_all() {
  for (int queue = 0; queue < tasks_.count(); ++queue) wait_uncounted(record(queue));
  const Lock lock = tasks_.lock();
  ++counts_.host_waits;
}

double Queues::reached_at(const Ticket& ticket) {
  if (ticket.queue < 0) return 0;
  const Lock lock = tasks_.lock();
  if (card_clock_) return ticket.recorded_at;
  return std::max(ticket.recorded_at, tasks_.finished_at(lock, ticket.queue, ticket.position));
}

double Queues::card_seconds() {
  const Lock lock = tasks_.lock();
  return card_clock_ ? card_clock_->end() : 0;
}

std::string Queues::failure(int device) {
  const Lock lock = tasks_.lock();
  return tasks_.failure(lock, device);
}

void Queues::forget_failures() {
  const Lock lock = tasks_.lock();
  tasks_.forget_failures(lock);
}

void Queues::close() {
  Lock lock = tasks_.lock();
  tasks_.close(lock);
}

Queues::Counts Queues::counts() {
  const Lock lock = tasks_.lock();
  Counts counts = counts_;
  counts.largest_queue = tasks_.largest_queue(lock);
  return counts;
}

}  // namespace tensorpager::fake_cuda
