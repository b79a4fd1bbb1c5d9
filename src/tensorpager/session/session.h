// The composition root: makes the parts, in order, and joins them. One per process; its parts are never destroyed,
// because storages, threads and exit handlers may outlive everything that could destroy them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/guide/guide.h"
#include "tensorpager/pager/curve.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/session/trace_file.h"

namespace c10 {
struct StorageImpl;
}
namespace tensorpager::intercept {
class DeviceStorages;
}

namespace tensorpager::session {

class Session {
 public:
  /// The process's session; makes it on the first call. Throws IoError where the machine refuses.
  static Session& get();
  /// The same if it was ever made, else null.
  static Session* find();

  /// From here on what this process allocates is charged and paged. Throws InvalidArgument if a session is active
  /// already, or an earlier one had the other binding; IoError if the spill directory cannot be used.
  void enable(const base::Config& config);
  /// Pages everything in and lifts the budget. What was counted stays readable.
  void disable();
  bool active() const { return active_; }
  /// Whether blocks may change their address. Only after the first enable().
  bool rebinds() const;

  /// This thread's ops are seen from now on. A thread is also entered by its first allocation or fault.
  void enter_thread();
  /// Lets go of what finished collectives kept.
  void release_collectives();
  /// Puts our fault handler in front again after something replaced it.
  void reinstall_fault_handler();

  /// Whether anybody looks for steps.
  bool wants_steps() const { return active_ && guide_ != nullptr; }
  void hint(base::Hint hint);
  /// What the storage is for, in the trace that is written: `parameter`, `gradient`, `optimizer`.
  void name_storage(c10::StorageImpl& storage, const std::string& name);
  /// This process writes no trace: others of its run do.
  void stop_recording();
  /// Nothing is recorded or planned any more: on demand it goes on.
  void dismiss_guide();
  /// The same in a forked child, where a thread that is not there may hold its locks.
  void leave_guide();
  /// Writes a trace of what was recorded to `path`; what there was, for people. Empty where nothing is recorded. Throws
  /// IoError.
  std::string write_trace(const std::string& path);

  /// What ends the program, where a dry run has seen enough; called on any thread, and again where the program went on.
  void set_end_of_program(std::function<void()> end) { end_program_ = std::move(end); }
  /// The accelerator's storages, where they are recorded; else null.
  intercept::DeviceStorages* device_storages() { return device_; }

  struct Report {
    std::string binding;  // stable or rebinding
    std::string spill;    // where paged-out bytes go, for people
    pager::Statistics counts;
    guide::Progress guidance;
    std::uint64_t outside_budget_bytes = 0;  // foreign storages that ops used, the most alive at once
    double wall_seconds = 0;                 // since enable()
    std::vector<pager::Curve::Point> curve;
  };
  /// While active, the state now; afterwards, as it was at disable().
  Report report();

  /// Only after the first enable().
  pager::Pager& pager();

 private:
  struct Parts;
  Session() = default;

  void make_parts(const base::Config& config);
  base::EventSink& make_sink(const base::Config& config);
  void set_sink(const base::Config& config, base::EventSink& sink);

  Report report_now();

  Parts* parts_ = nullptr;  // made by the first enable()
  bool active_ = false;
  bool serves_faults_ = false;  // rebinding: only to count writes that no op announced, under the fuzzer
  double started_ = 0;
  std::string spill_;
  std::unique_ptr<guide::Guide> guide_;          // null where nothing is recorded
  guide::Progress guidance_;                     // of the last one
  intercept::DeviceStorages* device_ = nullptr;  // made where a session records them
  std::function<void()> end_program_ = [] {};
  BlockNames names_;
  bool writes_trace_ = false;
  std::uint64_t trace_class_ = 1;
  Report last_;
};

}  // namespace tensorpager::session
