// The account of charged bytes. What is charged: resident blocks, slab chunks, pooled pages, and pages that are passed
// on before they are copied to the tier; never more than the budget, but for access outside an op while all is pinned,
// which is counted. Not thread-safe: the pager's lock covers it.
#pragma once

#include <algorithm>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

class Ledger {
 public:
  explicit Ledger(base::Bytes budget) : budget_(budget) {}

  base::Bytes budget() const { return budget_; }
  base::Bytes resident() const { return resident_; }  // blocks in memory, and slab chunks
  base::Bytes slabs() const { return slabs_; }        // the part of resident that is slab chunks
  base::Bytes live() const { return live_; }          // resident and paged out: what the program holds
  base::Bytes charged() const { return resident_ + pooled_ + passed_on_; }
  base::Bytes peak() const { return peak_; }                // of charged
  base::Bytes recent_peak() const { return recent_peak_; }  // the same, since the program asked to forget it
  base::Bytes need() const { return need_; }                // peak of live: the peak had nothing been evicted
  base::Bytes over() const { return over_; }                // the most by which charged exceeded the budget

  /// Whether `more` fits that takes no pages that are passed on, or takes `of_passed_on` of them. The pool is trimmed
  /// for it.
  bool fits(base::Bytes more, base::Bytes of_passed_on = {}) const {
    return resident_ + passed_on_ - of_passed_on + more <= budget_;
  }
  /// What the pool may hold once `more` bytes are resident. Pooled pages also stay within a quarter of what the program
  /// ever needed, so that a large budget does not make the process keep what it once touched.
  base::Bytes pool_allowance(base::Bytes more) const {
    const base::Bytes wanted = resident_ + passed_on_ + more;
    const base::Bytes need = std::max(need_, live_ + more);
    const base::Bytes ceiling = std::min(budget_, need + base::Bytes(need.count() / 4) + kPoolFloor);
    return ceiling > wanted ? ceiling - wanted : base::Bytes(0);
  }

  void born(base::Bytes n) { live_ += n, need_ = std::max(need_, live_), page_in(n); }
  void born_in_slab(base::Bytes n) { slabs_ += n, born(n); }
  void died(base::Bytes n, bool was_resident) { live_ -= n, resident_ -= was_resident ? n : base::Bytes(0); }
  void page_in(base::Bytes n) { resident_ += n, note_peak(); }
  void page_out(base::Bytes n) { resident_ -= n; }
  void set_pooled(base::Bytes n) { pooled_ = n, note_peak(); }
  void set_passed_on(base::Bytes n) { passed_on_ = n, note_peak(); }
  /// Counts from now on.
  void set_budget(base::Bytes n) {
    budget_ = n, peak_ = recent_peak_ = charged(), need_ = live_, over_ = base::Bytes(0);
  }
  void forget_recent_peak() { recent_peak_ = charged(); }
  /// Keeps what was counted.
  void lift_budget() { budget_ = base::kUnlimited; }

 private:
  /// Pooled pages that are kept whatever the program needs; less would make tiny programs ask the kernel all the time.
  static constexpr base::Bytes kPoolFloor{std::uint64_t{64} << 20};

  void note_peak() {
    peak_ = std::max(peak_, charged());
    recent_peak_ = std::max(recent_peak_, charged());
    if (charged() > budget_) over_ = std::max(over_, charged() - budget_);
  }

  base::Bytes budget_, resident_, slabs_, pooled_, passed_on_, live_, peak_, recent_peak_, need_, over_;
};

}  // namespace tensorpager::arena
