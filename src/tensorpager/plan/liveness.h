// What a trace says of each storage's life, in charged bytes: when it is used, what each op must have resident, and the
// two budgets that follow: need, and floor.
//
// Storages and temporaries below base::kMinPagedBytes are never evicted. They have one region of their own, as large as
// they ever are together with the trace's slab, which counts at every op.
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
  bool pageable = false;    // large enough, and of this window
  bool entry = false;
  std::optional<std::uint32_t> birth = {};  // op that makes it
  std::optional<std::uint32_t> death = {};  // op after which it is freed
};

/// What comes of a storage after a use.
struct Idle {
  std::int64_t until;  // the op that uses it next, or after which it dies; counted on into the next windows
  bool dies;           // before it is used again: it need not come back
};

class Liveness {
 public:
  explicit Liveness(const trace::Trace& trace);

  std::uint32_t ops() const { return static_cast<std::uint32_t>(temporaries_.size()); }
  std::uint32_t storages() const { return static_cast<std::uint32_t>(lives_.size()); }
  const Life& life(trace::StorageId id) const { return lives_[trace::index(id)]; }

  /// Of a pageable storage, by op; its birth is a use.
  std::span<const Use> uses(trace::StorageId id) const;
  /// After its first `used` uses in the window. Where it lives on and is not used again: four windows on.
  Idle idle_after(trace::StorageId id, std::size_t used) const;
  /// Number of the storage's first use among the uses of all.
  std::size_t first_use(trace::StorageId id) const { return use_begins_[trace::index(id)]; }
  std::size_t all_uses() const { return uses_.size(); }
  /// The pageable storages that the op uses, each once.
  std::span<const Touch> touches(std::uint32_t op) const;
  /// Those that die after it.
  std::span<const trace::StorageId> deaths(std::uint32_t op) const { return deaths_[op]; }
  /// Charged, and large enough to be placed.
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
