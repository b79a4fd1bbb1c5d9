// The composition root: makes the parts of a session in order and connects them. One per process; its parts are never
// destroyed, because storages, threads and exit handlers may outlive everything that could destroy them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/guide/guide.h"
#include "tensorpager/memory/paged_memory.h"
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
namespace tensorpager::replay {
class Replayer;
enum class Captures : std::uint8_t;
}  // namespace tensorpager::replay

namespace tensorpager::session {

class Session {
 public:
  /// Returns the process's session; makes it on the first call. Throws IoError if the machine refuses.
  static Session& get();
  /// Returns the session if it was made already, else null.
  static Session* find();

  /// From now on the allocations of this process are charged and paged. Throws InvalidArgument if a session is active
  /// already, or an earlier one had the other binding; IoError if the spill directory cannot be used.
  void enable(const base::Config& settings);
  /// Pages everything in and lifts the budget. The figures remain readable.
  void disable();
  bool active() const { return active_; }
  /// Whether blocks may change their address. Only after the first enable().
  bool rebinds() const;
  /// Whose memory is paged.
  base::Device paged_device() const { return device_of_memory_; }

  /// From now on this thread's ops are intercepted. A thread's first allocation or fault has the same effect.
  void enter_thread();
  /// Releases what finished collectives kept.
  void release_collectives();
  /// Makes our fault handler the first one again, after something replaced it.
  void reinstall_fault_handler();

  /// Whether hints about steps are used.
  bool wants_steps() const { return active_ && guide_ != nullptr; }
  void hint(base::Hint hint);
  /// Names the purpose of the storage in the trace that is written: `parameter`, `gradient`, `optimizer`.
  void name_storage(c10::StorageImpl& storage, const std::string& name);
  /// From now on this process writes no trace, as other processes of the run do.
  void stop_recording();
  /// Ends recording and planning; paging goes on on demand.
  void dismiss_guide();
  /// The same in a forked child, where a thread that does not exist there may hold the locks of the guide.
  void leave_guide();
  /// Writes a trace from the records to `path`. Returns a line that describes them for messages, empty if nothing is
  /// recorded. Throws IoError.
  std::string write_trace(const std::string& path);

  /// What ends the program when a dry run is complete; called on any thread, and again if the program continues.
  void set_end_of_program(std::function<void()> end) { end_program_ = std::move(end); }
  /// The accelerator's storages if they are recorded, else null.
  intercept::DeviceStorages* device_storages() { return device_; }

  struct Report {
    base::Device device = base::Device::kHost;
    std::string binding;  // stable or rebinding
    std::string spill;    // where paged-out bytes go, as text for messages
    pager::Statistics counts;
    guide::Progress guidance;
    std::uint64_t outside_budget_bytes = 0;         // peak of live foreign storages that ops used
    double wall_seconds = 0;                        // since enable()
    std::vector<std::string> replay_different_ops;  // ops of replay_differences, by name
    std::vector<pager::Curve::Point> curve;
  };
  /// The figures now, while the session is active; afterwards those at disable().
  Report report();

  /// May be called only after the first enable().
  pager::Pager& pager();

 private:
  Session() = default;

  void make_memory(const base::Config& config, base::Bytes budget);
  base::EventSink& make_sink(const base::Config& config);
  void see_calls(const base::Config& config);
  void capture(replay::Captures captures);
  void set_sink(const base::Config& config, base::EventSink& sink);

  Report report_now();

  memory::PagedMemory* memory_ = nullptr;  // made by the first enable()
  base::Device device_of_memory_ = base::Device::kHost;
  bool active_ = false;
  bool verifies_replay_ = false;
  bool captures_ = false;
  replay::Replayer* replayer_ = nullptr;  // of sessions that drop; made by the first, and never freed
  bool serves_faults_ = false;            // under rebinding only with the fuzzer, to count writes that no op announced
  double started_ = 0;
  std::string spill_;
  std::unique_ptr<guide::Guide> guide_;          // null if nothing is recorded
  base::EventSink* sink_ = nullptr;              // the guide, or what is before it; null if there is no guide
  guide::Progress guidance_;                     // of the last guide
  intercept::DeviceStorages* device_ = nullptr;  // made by a session that records them
  std::function<void()> end_program_ = [] {};
  BlockNames names_;
  bool writes_trace_ = false;
  std::uint64_t trace_class_ = 1;
  Report last_;
};

}  // namespace tensorpager::session
