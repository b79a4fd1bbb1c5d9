// The composition root: makes the parts, in order, and joins them. One per process; its parts are never destroyed,
// because storages, threads and exit handlers may outlive everything that could destroy them.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/pager/curve.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/statistics.h"

namespace tensorpager::session {

class Session {
 public:
  /// The process's session; makes it on the first call. Throws IoError where the machine refuses.
  static Session& get();
  /// The same if it was ever made, else null.
  static Session* find();

  /// From here on what this process allocates is charged and paged. Throws InvalidArgument if a session is active
  /// already, IoError if the spill directory cannot be used.
  void enable(const base::Config& config);
  /// Pages everything in and lifts the budget. What was counted stays readable.
  void disable();
  bool active() const { return active_; }

  /// This thread's ops are seen from now on. A thread is also entered by its first allocation or fault.
  void enter_thread();
  /// Puts our fault handler in front again after something replaced it.
  void reinstall_fault_handler();

  struct Report {
    std::string spill;  // where paged-out bytes go, for people
    pager::Statistics counts;
    std::uint64_t outside_budget_bytes = 0;  // foreign storages that ops used, the most alive at once
    double wall_seconds = 0;                 // since enable()
    std::vector<pager::Curve::Point> curve;
  };
  /// While active, the state now; afterwards, as it was at disable().
  Report report();

  pager::Pager& pager();

 private:
  struct Parts;
  Session();

  Report report_now();

  Parts* parts_;
  bool active_ = false;
  double started_ = 0;
  std::string spill_;
  Report last_;
};

}  // namespace tensorpager::session
