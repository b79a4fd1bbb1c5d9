// What a card's queues look like to the host: kernels are queued, events recorded, waits queued and waited for. Keeps
// the vector clocks that say what is ordered before what, and shows each kernel to the race checker.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/fake_cuda/card_clock.h"
#include "tensorpager/fake_cuda/race_checker.h"
#include "tensorpager/fake_cuda/schedule.h"
#include "tensorpager/fake_cuda/task_queues.h"
#include "tensorpager/fake_cuda/ticket.h"

namespace tensorpager::fake_cuda {

class Queues {
 public:
  struct Counts {
    std::uint64_t kernels = 0;
    std::uint64_t stream_waits = 0;
    std::uint64_t host_waits = 0;
    std::size_t largest_queue = 0;  // tasks
  };

  /// `races`: null if races are not checked. `schedule` as for make_schedule. `speeds`: of the card; nullopt if times
  /// are those of the stand-ins on the CPU.
  Queues(int queues, int queues_per_device, std::string_view schedule, long delay_us, RaceChecker* races,
         const std::optional<Speeds>& speeds = std::nullopt);

  /// `name` lives for ever.
  void enqueue(int queue, const char* name, const std::vector<Range>& touched, std::function<void()> kernel,
               const Work& work = {});
  /// Returns a ticket for all that is queued so far.
  Ticket record(int queue);
  /// The queue waits until the ticket's place was reached.
  void block(int queue, const Ticket& ticket);
  /// If it returns true, what the host queues next is ordered behind the ticket, as by a wait. If not, some time
  /// passes.
  bool is_done(const Ticket& ticket);
  void wait(const Ticket& ticket);
  void wait_for_queue(int queue) { wait(record(queue)); }
  /// These count as one wait.
  void wait_for_device(int device);
  void wait_for_all();
  /// Seconds at which a ticket's place was reached, or it was recorded, whichever is later.
  double reached_at(const Ticket& ticket);
  /// Seconds until all that was queued is done on the card; 0 without `speeds`.
  double card_seconds();

  /// The first failure of a device's kernels; empty if there was none.
  std::string failure(int device);
  void forget_failures();
  void close();
  Counts counts();
  std::string schedule_name() const { return schedule_->name(); }

 private:
  void wait_uncounted(const Ticket& ticket);
  Clock& clock(int queue) { return clocks_[static_cast<std::size_t>(queue)]; }

  TaskQueues tasks_;
  std::unique_ptr<Schedule> schedule_;  // after what it runs
  RaceChecker* races_;
  std::vector<Clock> clocks_;  // by queue: what happens before the next task; guarded by the tasks' lock
  Clock host_clock_;           // what the host has waited for
  std::optional<CardClock> card_clock_;
  Counts counts_;
};

}  // namespace tensorpager::fake_cuda
