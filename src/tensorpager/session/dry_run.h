// Ends a dry run once a step of the program has repeated, or some time later, as more steps would show nothing new but
// an evaluation that follows them may. Passes events on to the recorder, and searches the recorded stream after steps
// that an optimizer ends, or that the program marks, and where none has come for many ops. Optimizers that step while
// the autograd engine runs, one for each parameter, end a step together, when it is done.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::session {

class DryRun final : public base::EventSink {
 public:
  struct Options {
    std::chrono::seconds longest{300};  // after this time the program is ended in any case
    std::chrono::seconds longer{0};     // for which it goes on after a step has repeated
    std::function<trace::Stream()> stream;
    std::function<void()>
        end;  // called without locks, on the thread of the last event; if it returns, it may be called again
  };

  DryRun(base::EventSink& recorder, Options options);

  Ticket op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept override;
  void op_touches(Ticket op, std::span<const base::Touch> touched) noexcept override {
    recorder_.op_touches(op, touched);
  }
  Ticket op_ends(Ticket op, std::chrono::nanoseconds took) noexcept override { return recorder_.op_ends(op, took); }
  void op_timed(Ticket op, std::chrono::nanoseconds took) noexcept override { recorder_.op_timed(op, took); }
  void block_born(Ticket op, const base::NewBlock& block) noexcept override;
  void block_died(Ticket op, std::uint64_t number) noexcept override;
  void slab_grew(base::Bytes slab) noexcept override { recorder_.slab_grew(slab); }
  void hint(base::Hint hint) noexcept override;

 private:
  static constexpr std::uint64_t kFirstSteps = 3;  // an optimizer makes its state in the first step
  static constexpr std::uint64_t kManySteps = 6;   // windows begin where they would after hundreds (trace/boundaries.h)
  static constexpr std::uint64_t kFirstOps = 4096;  // without a step; fewer are cheap

  enum class At : std::uint8_t { kOp, kStep };

  void count_step();
  void look(At at);

  base::EventSink& recorder_;
  const Options options_;
  std::atomic<std::chrono::steady_clock::time_point> latest_;
  std::atomic<std::uint64_t> ops_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint64_t> look_at_ops_{kFirstOps};
  std::atomic<std::uint64_t> look_at_steps_{kFirstSteps};
  std::atomic<bool> is_looking_{false};
  std::atomic<bool> has_repeated_{false};
  std::atomic<bool> is_in_backward_{false};       // the latest op was the autograd engine's
  std::atomic<bool> stepped_in_backward_{false};  // an optimizer, in the run of the engine that is not done
};

}  // namespace tensorpager::session
