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

  // --- replays
  bool has_replays() const { return !plan_.replays.empty(); }
  bool is_replay(std::uint32_t op) const { return replays_[op] != kNoReplay; }
  /// The op of the program that replays from `op` on run before.
  std::uint32_t behind_replays(std::uint32_t op) const {
    while (is_replay(op)) ++op;
    return op;
  }
  bool is_first_replay(std::uint32_t op) const { return replays_[op] == 0; }
  /// The op of the program that a replay runs again.
  std::uint32_t replayed_by(std::uint32_t replay) const { return program_ops_[plan_.replays[replays_[replay]].op]; }
  /// The pageable storages that the op makes or fills.
  std::span<const StorageId> made_anew(std::uint32_t op) const { return part(made_anew_, made_begins_, op); }
  /// What the replay keeps of that, by places among what the op that it runs again makes anew.
  std::vector<std::uint32_t> kept_by(std::uint32_t replay) const;
  bool is_replayed_later(std::uint32_t op) const { return is_replayed_later_[op]; }
  /// Pageable storages whose copies end after the op, though the program frees nothing there.
  std::span<const StorageId> drops(std::uint32_t op) const { return part(drops_, drop_begins_, op); }
  /// By op of the program: the op here.
  std::span<const std::uint32_t> program_ops() const { return program_ops_; }
  /// The signatures of the program's ops.
  const std::vector<OpSignature>& program_signatures() const {
    return has_replays() ? program_signatures_ : signatures_;
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
  std::span<const Birth> births(std::uint32_t op) const { return part(births_, birth_begins_, op); }
  /// The pageable storages that the op uses, without those that it makes.
  const std::vector<StorageId>& arguments(std::uint32_t op) const { return arguments_[op]; }
  /// The storages alive between windows that the op writes, in the order of the trace.
  const std::vector<StorageId>& entries_written(std::uint32_t op) const { return entries_written_[op]; }
  /// Whether a storage that dies after the op continues this one.
  bool is_renewed(StorageId id, std::uint32_t op) const {
    return std::ranges::binary_search(renewed_, std::pair(op, id));
  }
  /// The pageable storages that the program frees after the op.
  std::span<const StorageId> deaths(std::uint32_t op) const { return part(deaths_, death_begins_, op); }
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
  std::span<const std::uint32_t> beginning(std::uint32_t op) const { return part(beginning_, beginning_begins_, op); }
  /// Rows with this end, page-outs in the order of their tickets.
  std::span<const std::uint32_t> leaving(std::uint32_t op) const { return part(leaving_, leaving_begins_, op); }
  /// The row that the storage is in while the op runs; null if it is paged out, or does not exist.
  const Row* row_at(StorageId id, std::uint32_t op) const;
  /// The row of what the op makes, which may be kTemporary; null if there is none.
  const Row* born_row(StorageId id, std::uint32_t op) const;
  bool makes_something(std::uint32_t op) const { return !births(op).empty() || born_row(kTemporary, op) != nullptr; }
  const ResidentRows& resident_rows() const { return resident_rows_; }
  /// Page-ins that only the next window needs.
  std::span<const std::uint32_t> arriving_at_end() const { return arriving_at_end_; }
  /// The ticket of a row's page-out, from 1; 0 if the row has none.
  std::uint32_t ticket(std::uint32_t row) const { return tickets_[row]; }

  /// The planned charged bytes of blocks: when the op begins, and when it ends and its temporaries are gone. Returns
  /// nullopt if the plan does not say.
  std::optional<base::Bytes> planned_at_begin(std::uint32_t op) const { return planned(op, born_); }
  std::optional<base::Bytes> planned_at_end(std::uint32_t op) const { return planned(op, temporary_); }
  struct PageOut {
    base::Bytes bytes;
    std::uint32_t until;  // the op before which it is awaited, counted on into the next window
  };
  /// Page-outs of rows that ended, in this window or the one before, and are still charged when `op` begins.
  std::vector<PageOut> under_way(std::uint32_t op) const;

  /// How many ops after `op` the storage, alive then, is used next. Returns nullopt if it is not used again.
  std::optional<std::uint32_t> next_use(StorageId id, std::uint32_t op) const;

 private:
  /// The window with the plan's replays.
  struct Rewritten {
    Plan plan;
    plan::Rewriting rewriting;
    std::vector<OpSignature> signatures;  // of the program's ops
  };
  static constexpr std::uint32_t kNoReplay = ~std::uint32_t{0};

  static Rewritten rewrite(const trace::Trace& trace, Plan plan, std::vector<OpSignature> signatures);
  explicit Agenda(Rewritten rewritten);
  void note_replays();
  void add_ends(const trace::Op& op, const std::vector<bool>& dies_with_program);

  template <typename Element>
  static std::span<const Element> part(const std::vector<Element>& all, const std::vector<std::uint32_t>& begins,
                                       std::uint32_t op) {
    return {all.data() + begins[op], begins[op + 1] - begins[op]};
  }
  std::optional<base::Bytes> planned(std::uint32_t op, const std::vector<base::Bytes>& without) const {
    if (plan_.predicted.curve.empty()) return std::nullopt;
    return plan_.predicted.curve[op] - plan_.slab - without[op];
  }
  template <typename OpOf>
  void sort_rows(std::vector<std::uint32_t>& rows, std::vector<std::uint32_t>& begins, OpOf op_of) const;

  Plan plan_;
  Liveness liveness_;
  std::vector<base::Bytes> sizes_;  // by storage
  std::vector<std::optional<std::uint64_t>> identities_;
  std::vector<StorageId> entries_;
  std::vector<StorageId> identified_;              // entries that have an identity, by identity
  std::vector<std::vector<StorageId>> arguments_;  // by op
  std::vector<std::vector<StorageId>> entries_written_;
  std::vector<std::pair<std::uint32_t, StorageId>> renewed_;  // with the op that does; sorted
  std::vector<OpSignature> signatures_;
  std::vector<OpSignature> program_signatures_;  // empty without replays
  std::vector<std::uint32_t> program_ops_;
  std::vector<std::uint32_t> replays_;  // by op: the number of its replay; kNoReplay: it is the program's
  std::vector<bool> is_replayed_later_;
  std::vector<StorageId> copy_of_;  // by storage: that of the program's window
  std::vector<StorageId> made_anew_;
  std::vector<std::uint32_t> made_begins_;
  std::vector<StorageId> deaths_, drops_;
  std::vector<std::uint32_t> death_begins_, drop_begins_;
  std::vector<Birth> births_;
  std::vector<std::uint32_t> birth_begins_;
  std::vector<std::uint32_t> beginning_, beginning_begins_;
  std::vector<std::uint32_t> leaving_, leaving_begins_;
  std::vector<std::vector<std::uint32_t>> rows_of_;  // by storage
  ResidentRows resident_rows_;
  std::vector<std::uint32_t> arriving_at_end_;
  std::vector<std::uint32_t> tickets_;
  std::vector<base::Bytes> born_;         // by op, charged: all that it makes
  std::vector<base::Bytes> temporary_;    // of that, what is gone when it ends
  std::vector<std::uint32_t> page_outs_;  // rows, by ticket - 1
  std::vector<std::uint32_t> awaited_;    // by ticket - 1: the op, counted on into the next window
};

}  // namespace tensorpager::follow
