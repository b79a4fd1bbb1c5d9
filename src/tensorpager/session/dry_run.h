// The end of a dry run: a program whose kernels are skipped is of use until one of its steps has repeated, and is ended
// there. A sink before the one that records; the recorded stream is looked at after steps that an optimizer ends, and
// where none does, after so many ops.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::session {

class DryRun final : public base::EventSink {
 public:
  struct Options {
    std::chrono::seconds longest{300};  // then the program is ended whatever was found
    std::function<trace::Stream()> stream;
    std::function<void()>
        end;  // called where nothing is locked, on the thread that told; may return, and is called again later
  };

  DryRun(base::EventSink& recorder, Options options);

  Ticket op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept override;
  void op_touches(Ticket op, std::span<const base::Touch> touched) noexcept override {
    recorder_.op_touches(op, touched);
  }
  void op_ends(Ticket op, std::chrono::nanoseconds took) noexcept override { recorder_.op_ends(op, took); }
  void block_born(Ticket op, const base::NewBlock& block) noexcept override;
  void block_died(Ticket op, std::uint64_t number) noexcept override;
  void slab_grew(base::Bytes slab) noexcept override { recorder_.slab_grew(slab); }
  void hint(base::Hint hint) noexcept override;

 private:
  static constexpr std::uint64_t kFirstSteps = 3;   // an optimizer makes its state in the first
  static constexpr std::uint64_t kFirstOps = 4096;  // where nothing tells steps

  void look();

  base::EventSink& recorder_;
  const Options options_;
  const std::chrono::steady_clock::time_point latest_;
  std::atomic<std::uint64_t> ops_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint64_t> look_at_ops_{kFirstOps};
  std::atomic<std::uint64_t> look_at_steps_{kFirstSteps};
  std::atomic<bool> is_looking_{false};
};

}  // namespace tensorpager::session
