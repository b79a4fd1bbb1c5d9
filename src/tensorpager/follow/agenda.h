// A plan and its trace, arranged by op for the code that follows the plan: the signature of an op, what it makes, which
// rows begin and leave there, and when a storage is used next. A value that never changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/op_signature.h"
#include "tensorpager/follow/names.h"
#include "tensorpager/follow/per_op.h"
#include "tensorpager/follow/planned_page_outs.h"
#include "tensorpager/follow/planned_replays.h"
#include "tensorpager/follow/resident_rows.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::follow {

class Agenda {
 public:
  struct Birth {
    StorageId storage;
    base::Bytes size;  // as requested
  };

  /// `trace`: of the program's window. `signatures`: those of its ops when they begin; if empty, they are taken from
  /// the trace, where they include what ops within an op touch. Throws InvalidArgument if the plan is for another
  /// number of ops or other storages, or has an impossible replay.
  Agenda(const trace::Trace& trace, Plan plan, std::vector<OpSignature> signatures = {});

  const Plan& plan() const { return plan_; }
  /// The program's and replays.
  std::uint32_t ops() const { return plan_.ops; }

  const PlannedReplays& replays() const { return replays_; }
  const PlannedPageOuts& page_outs() const { return page_outs_; }
  /// The signatures of the program's ops.
  const std::vector<OpSignature>& program_signatures() const {
    return replays_.any() ? program_signatures_ : signatures_;
  }

  const Row& row(std::uint32_t i) const { return plan_.rows[i]; }
  std::uint32_t storages() const { return liveness_.storages(); }

  const OpSignature& signature(std::uint32_t op) const { return signatures_[op]; }
  const std::vector<OpSignature>& signatures() const { return signatures_; }
  /// Whether an op may be followed as this one: it has its name and, of any sizes, touches something if that does.
  bool is_like(const OpSignature& op, std::uint32_t planned) const {
    return op.name == signatures_[planned].name && (op.sizes != 0 || signatures_[planned].sizes == 0);
  }
  /// The pageable storages that the op makes, in the order of the trace.
  std::span<const Birth> births(std::uint32_t op) const { return births_[op]; }
  /// The pageable storages that the op makes or fills.
  std::span<const StorageId> made_anew(std::uint32_t op) const { return made_anew_[op]; }
  /// The pageable storages that the op uses, without those that it makes.
  std::span<const StorageId> arguments(std::uint32_t op) const { return arguments_[op]; }
  /// The storages alive between windows that the op writes, in the order of the trace.
  std::span<const StorageId> entries_written(std::uint32_t op) const { return entries_written_[op]; }
  /// Whether a storage that dies after the op continues this one.
  bool is_renewed(StorageId id, std::uint32_t op) const {
    return std::ranges::binary_search(renewed_, std::pair(op, id));
  }
  /// The pageable storages that the program frees after the op.
  std::span<const StorageId> deaths(std::uint32_t op) const { return deaths_[op]; }
  /// Pageable storages whose copies end after the op, though the program frees nothing there.
  std::span<const StorageId> drops(std::uint32_t op) const { return drops_[op]; }
  bool is_entry(StorageId id) const { return liveness_.life(id).entry; }
  /// The storages alive between windows, in the order of their numbers.
  std::span<const StorageId> entries() const { return entries_; }
  /// The requested size.
  base::Bytes storage_size(StorageId id) const { return sizes_[trace::index(id)]; }
  /// The identity of a storage that is alive between windows: the same in all classes that have it.
  std::optional<std::uint64_t> identity(StorageId id) const { return identities_[trace::index(id)]; }
  /// The storages alive between windows that have it, in the order of their numbers.
  std::span<const StorageId> entries_of(std::uint64_t identity) const;
  /// Rows with this begin, in the order of the table.
  std::span<const std::uint32_t> beginning(std::uint32_t op) const { return beginning_[op]; }
  /// Rows with this end, page-outs in the order of their tickets.
  std::span<const std::uint32_t> leaving(std::uint32_t op) const { return leaving_[op]; }
  /// The row that the storage is in while the op runs; null if it is paged out, or does not exist.
  const Row* row_at(StorageId id, std::uint32_t op) const;
  /// The row of what the op makes, which may be kTemporary; null if there is none.
  const Row* born_row(StorageId id, std::uint32_t op) const;
  bool makes_something(std::uint32_t op) const { return !births(op).empty() || born_row(kTemporary, op) != nullptr; }
  const ResidentRows& resident_rows() const { return resident_rows_; }
  /// Page-ins that only the next window needs.
  std::span<const std::uint32_t> arriving_at_end() const { return arriving_at_end_; }

  /// The planned charged bytes of blocks: when the op begins, and when it ends and its temporaries are gone. Returns
  /// nullopt if the plan does not say.
  std::optional<base::Bytes> planned_at_begin(std::uint32_t op) const { return planned(op, born_); }
  std::optional<base::Bytes> planned_at_end(std::uint32_t op) const { return planned(op, temporary_); }

  /// How many ops after `op` the storage, alive then, is used next. Returns nullopt if it is not used again.
  std::optional<std::uint32_t> next_use(StorageId id, std::uint32_t op) const;

 private:
  /// The window with the plan's replays.
  struct Rewritten {
    Plan plan;
    plan::Rewriting rewriting;
    std::vector<OpSignature> signatures;  // of the program's ops; or none
  };

  static Rewritten rewrite(const trace::Trace& trace, Plan plan, std::vector<OpSignature> signatures);
  explicit Agenda(Rewritten rewritten);
  void add_op(const Rewritten& rewritten, std::uint32_t at);
  void add_ends(const trace::Op& op, const std::vector<bool>& dies_with_program);
  void add_rows();

  std::optional<base::Bytes> planned(std::uint32_t op, const std::vector<base::Bytes>& without) const {
    if (plan_.predicted.curve.empty()) return std::nullopt;
    return plan_.predicted.curve[op] - plan_.slab - without[op];
  }
  template <typename OpOf>
  PerOp<std::uint32_t> rows_by(OpOf op_of) const;

  Plan plan_;
  PlannedReplays replays_;
  PlannedPageOuts page_outs_;
  Liveness liveness_;
  std::vector<base::Bytes> sizes_;  // by storage
  std::vector<std::optional<std::uint64_t>> identities_;
  std::vector<StorageId> entries_;
  std::vector<StorageId> identified_;                         // entries that have an identity, by identity
  std::vector<std::pair<std::uint32_t, StorageId>> renewed_;  // with the op that does; sorted
  std::vector<OpSignature> signatures_;
  std::vector<OpSignature> program_signatures_;  // empty without replays
  PerOp<StorageId> arguments_, entries_written_, made_anew_, deaths_, drops_;
  PerOp<Birth> births_;
  PerOp<std::uint32_t> beginning_, leaving_;
  std::vector<std::vector<std::uint32_t>> rows_of_;  // by storage
  ResidentRows resident_rows_;
  std::vector<std::uint32_t> arriving_at_end_;
  std::vector<base::Bytes> born_;       // by op, charged: all that it makes
  std::vector<base::Bytes> temporary_;  // of that, what is gone when it ends
};

}  // namespace tensorpager::follow
