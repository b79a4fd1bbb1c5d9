// The lives of a trace's storages, in charged bytes: when each is used, what each op must have resident, and two
// budgets computed from it: need and floor.
//
// Storages and temporaries below base::kMinPagedBytes are never evicted. They share one region of their own, as large
// as their peak together with the trace's slab, which counts at every op.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

struct Use {
  std::uint32_t op;
  bool write;
};

struct Touch {
  trace::StorageId storage;
  bool write;
};

struct Life {
  std::uint64_t bytes = 0;  // charged
  bool pageable = false;    // large enough to be paged
  bool entry = false;
  std::optional<std::uint32_t> birth = {};  // op that makes it
  std::optional<std::uint32_t> death = {};  // op after which it is freed
};

/// The time between two uses of a storage.
struct Idle {
  std::int64_t until;  // the op that uses it next, or after which it dies; in the next windows, counted on from ops()
  bool dies;           // before its next use, so it need not come back
};

class Liveness {
 public:
  explicit Liveness(const trace::Trace& trace);

  std::uint32_t ops() const { return static_cast<std::uint32_t>(temporaries_.size()); }
  std::uint32_t storages() const { return static_cast<std::uint32_t>(lives_.size()); }
  const Life& life(trace::StorageId id) const { return lives_[trace::index(id)]; }

  /// The uses of a pageable storage, by op; its birth counts as a use.
  std::span<const Use> uses(trace::StorageId id) const;
  /// What follows the first `used` uses. If the storage is neither used again nor freed, `until` is 5 * ops().
  Idle idle_after(trace::StorageId id, std::size_t used) const;
  /// The number of the storage's first use, counted over the uses of all storages.
  std::size_t first_use(trace::StorageId id) const { return use_begins_[trace::index(id)]; }
  std::size_t all_uses() const { return uses_.size(); }
  /// The pageable storages that the op uses, each once.
  std::span<const Touch> touches(std::uint32_t op) const;
  /// The pageable storages that die after the op.
  std::span<const trace::StorageId> deaths(std::uint32_t op) const { return deaths_[op]; }
  /// Charged bytes of the op's temporaries; 0 if they are too small to be placed.
  std::uint64_t temporary(std::uint32_t op) const { return temporaries_[op]; }

  base::Bytes slab() const { return slab_; }
  base::Bytes need() const { return need_; }
  base::Bytes floor() const { return floor_; }
  std::uint32_t need_op() const { return need_op_; }
  std::uint32_t floor_op() const { return floor_op_; }
  /// Bytes that are live while the op runs, slab included.
  base::Bytes live(std::uint32_t op) const { return live_[op]; }

 private:
  void read_ops(const trace::Trace& trace);
  void add_up(const trace::Trace& trace);

  std::vector<Life> lives_;
  std::vector<Use> uses_;
  std::vector<std::size_t> use_begins_;
  std::vector<Touch> touches_;
  std::vector<std::size_t> touch_begins_;
  std::vector<std::vector<trace::StorageId>> deaths_;
  std::vector<std::uint64_t> temporaries_;
  std::vector<base::Bytes> live_;
  base::Bytes slab_;
  base::Bytes need_;
  base::Bytes floor_;
  std::uint32_t need_op_ = 0;
  std::uint32_t floor_op_ = 0;
};

}  // namespace tensorpager::plan
