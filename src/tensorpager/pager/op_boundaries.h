// Counts ops, and does what is due when one begins: a task of the guide's, the witness, the fuzzer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tensorpager/pager/boundary_work.h"
#include "tensorpager/pager/core.h"
#include "tensorpager/pager/fuzzer.h"

namespace tensorpager::pager {

class OpBoundaries {
 public:
  /// It must outlive this.
  explicit OpBoundaries(Core& core) : core_(core) {}

  /// Counts an op, which begins on the calling thread.
  void op_begins() {
    const std::uint64_t now = core_.clock.fetch_add(1, std::memory_order_relaxed) + 1;
    if (work_.is_due(now)) [[unlikely]]
      do_work(now);
  }
  /// Calls the task once, with no lock held, when an op begins that no other op called, at least `after_ops` ops from
  /// now. It replaces the task before; null: none is called.
  void call_once(std::function<void()> task, std::uint64_t after_ops = 0);

  // --- with the lock held
  /// `witness_ops`: how often the kernel is asked for what is resident; 0: never.
  void begin_session(const std::optional<Fuzzer>& fuzzer, std::uint64_t witness_ops);
  /// The fuzzer drops no more blocks.
  void end_drops();
  void end_session();
  void forget_task() { work_.set_task(nullptr, 0); }

 private:
  void do_work(std::uint64_t now);
  void run_task(std::uint64_t now);

  Core& core_;
  BoundaryWork work_;
  std::optional<Fuzzer> fuzzer_;
  std::uint64_t witness_ops_ = 0;
};

}  // namespace tensorpager::pager
