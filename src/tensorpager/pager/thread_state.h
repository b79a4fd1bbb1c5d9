// What the pager keeps of each thread. Plain data, so that reaching it costs one instruction.
#pragma once

#include <chrono>
#include <cstdint>

namespace tensorpager::pager {

class PinSet;

/// Whether the thread runs replays; what it allocates then is no part of the program.
enum class Replaying : std::uint8_t {
  kNo,
  kOnDemand,  // for somebody who needs a dropped block
  kPlanned,   // they are ops of the plan, which is notified
};

struct ThreadState {
  PinSet* top = nullptr;  // the innermost op that runs on this thread
  // Bytes in blocks whose first pin is this thread's. If threads share blocks, the last pin may be another's: exact
  // again from each outermost op on.
  std::int64_t pinned = 0;
  std::uint64_t created = 0;                            // bytes in blocks that this thread ever created
  std::uint64_t replayed_later = 0;                     // see ActionSource, for the op that runs on this thread
  std::uint64_t followed_ops = 0;                       // that were the plan's
  std::uint64_t recorded_op = 0;                        // ticket of the recorded op that runs on this thread; 0: none
  std::chrono::steady_clock::time_point op_ended = {};  // the one before
  std::chrono::nanoseconds paging{0};  // paging time since the recorded op began, or since the one before ended
  const void* last_fault = nullptr;
  std::uint32_t last_mended = 0;   // Block::mended at that fault
  std::uint32_t same_faults = 0;   // faults in a row at that address that were not served
  bool entered = false;            // was asked what kind of thread it is
  bool keeps_allocations = false;  // R4: what the thread allocates is never evicted
  bool is_collectives = false;     // a collective's own thread: what it does is no part of the program, and of no plan
  bool hides_shortages = false;    // runs an op that would do otherwise, and not fail, if it were out of memory
  Replaying replaying = Replaying::kNo;
  bool times_paging = false;  // see PagingTime
  bool in_pager = false;      // holds the pager's lock: a fault now is a real one
};

[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadState t_state;

}  // namespace tensorpager::pager
