#include "tensorpager/sim/follower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/sim/ground.h"

namespace tensorpager::sim {
namespace {

using base::Bytes;
using plan::Fill;
using plan::Leave;
using plan::Row;
using trace::index;
using trace::StorageId;

// Owners: entries by identity, so that they are the same in all classes; then what is of one window, and what no plan
// knows.
constexpr Owner kOfWindow = Owner{1} << 62;
constexpr Owner kUnplanned = Owner{1} << 63;
constexpr std::uint32_t kNone = UINT32_MAX;

struct Item {
  std::uint64_t bytes = 0;               // charged
  StorageId storage = plan::kTemporary;  // in the trace of the window
  std::optional<std::uint64_t> at = {};  // while it is resident
  std::uint32_t row = kNone;             // of the plan, while it is in one
  std::uint64_t pinned_at = 0;           // step
  std::uint64_t dies_at = UINT64_MAX;    // step, of an unplanned one
  std::uint64_t version = 0;             // of its bytes
  std::uint64_t below = 0;               // the version that was paged out last
  Nanoseconds arrives{0};                // its page-in, or since when its block is free for it
  Nanoseconds below_from{0};
  std::uint64_t off_since = 0;  // step since when it is elsewhere than planned; 0: it is not
};

}  // namespace

class Follower::State {
 public:
  State(const plan::Machine& machine, Bytes budget) : machine_(machine), budget_(budget) {}

  Followed followed;

  void run(const trace::Trace& trace, const plan::Plan& plan, const std::vector<Step>& steps) {
    TENSORPAGER_CHECK(plan.budget == budget_);
    begin_window(trace, plan);
    for (const Step& step : steps) {
      ++step_;
      followed.misses += step.is_miss() ? 1 : 0;
      op_ = step.op;
      if (!step.inserted) begin_rows();
      if (step.inserted)
        run_inserted(step);
      else
        run_planned(step);
      std::erase_if(waiting_, [&](std::uint32_t row) { return !is_open(row) || try_page_in(row); });
      if (!step.inserted) end_rows();
      bury_unplanned();
      account();
    }
    end_window();
    followed.time = clock_;
  }

 private:
  using Owners = std::vector<Owner>;

  Owner owner_of(StorageId id) const {
    const trace::Storage& storage = trace_->storages[index(id)];
    if (!storage.entry) return kOfWindow + (window_ << 32) + index(id);
    return storage.identity.value_or(index(id));
  }
  std::uint64_t charged(Bytes bytes) const { return base::round_up(bytes, trace_->granule).count(); }
  static bool is_small(std::uint64_t bytes) { return bytes < base::kMinPagedBytes.count(); }

  void begin_window(const trace::Trace& trace, const plan::Plan& plan) {
    trace_ = &trace;
    plan_ = &plan;
    if (!ground_) ground_ = std::make_unique<Ground>((budget_ - plan.slab).count());
    liveness_ = std::make_unique<plan::Liveness>(trace);
    ++window_;
    next_row_ = 0;
    births_.clear();
    waiting_.clear();
    rows_of_.assign(trace.storages.size(), {});
    ending_.assign(plan.ops + 1, {});
    for (std::uint32_t i = 0; i < plan.rows.size(); ++i) {
      if (plan.rows[i].storage == plan::kTemporary) continue;
      rows_of_[index(plan.rows[i].storage)].push_back(i);
      ending_[plan.rows[i].end].push_back(i);
    }
    for (std::uint32_t i = 0; i < trace.storages.size(); ++i) {
      const std::uint64_t bytes = charged(trace.storages[i].bytes);
      if (!trace.storages[i].entry || is_small(bytes)) continue;
      Item& item =
          items_.try_emplace(owner_of(StorageId{i}), Item{.bytes = bytes, .version = 1, .below = 1}).first->second;
      item.storage = StorageId{i};
      item.row = kNone;
    }
  }

  /// What is of this window only is gone, also what an op that was left out should have freed.
  void end_window() {
    for (auto item = items_.begin(); item != items_.end();) {
      const auto next = std::next(item);
      if (item->first >= kOfWindow && item->first < kUnplanned) bury(item->first);
      item = next;
    }
  }

  void bury(Owner owner) {
    const auto item = items_.find(owner);
    if (item == items_.end()) return;
    note_on_plan(item->second);
    if (item->second.at) ground_->give_back(*item->second.at, item->second.arrives);
    items_.erase(item);
  }

  void bury_unplanned() {
    Owners dead;
    for (const auto& [owner, item] : items_) {
      if (item.dies_at <= step_) dead.push_back(owner);
    }
    for (const Owner owner : dead) bury(owner);
  }

  // --- transfers

  void evict(Owner owner) {
    Item& item = items_.at(owner);
    Nanoseconds busy_until = item.arrives;
    if (item.below != item.version) {
      out_free_ = std::max({clock_, out_free_, item.arrives}) + machine_.out.time_of(Bytes(item.bytes));
      busy_until = item.below_from = out_free_;
      item.below = item.version;
      owed_ += machine_.out.handling;
      ++followed.page_outs;
    }
    ground_->give_back(*item.at, busy_until);
    item.at.reset();
  }

  /// The range has no blocks. A new storage has no bytes to bring.
  void place(Owner owner, std::uint64_t offset) {
    Item& item = items_.at(owner);
    item.arrives = ground_->take(offset, item.bytes, owner);
    item.at = offset;
    if (item.version == 0) return;
    followed.lost += item.below == item.version ? 0 : 1;
    in_free_ = std::max({clock_, in_free_, item.arrives, item.below_from}) + machine_.in.time_of(Bytes(item.bytes));
    item.arrives = in_free_;
    owed_ += machine_.in.handling;
  }

  // --- rows

  bool is_open(std::uint32_t row) const {
    const auto item = items_.find(owner_of(plan_->rows[row].storage));
    return item != items_.end() && item->second.row == row && !item->second.at;
  }

  bool fits_row(const Item& item, const Row& row) const { return item.bytes <= row.bytes.count(); }

  bool try_page_in(std::uint32_t number) {
    const Row& row = plan_->rows[number];
    const Owner owner = owner_of(row.storage);
    if (!fits_row(items_.at(owner), row) || !ground_->owners(row.offset, row.offset + row.bytes.count()).empty())
      return false;
    place(owner, row.offset);
    return true;
  }

  void begin_rows() {
    for (; next_row_ < plan_->rows.size() && plan_->rows[next_row_].begin <= op_; ++next_row_) {
      const Row& row = plan_->rows[next_row_];
      if (row.storage == plan::kTemporary || row.fill == Fill::kBorn) {
        births_[index(row.storage)] = next_row_;
        continue;
      }
      const Owner owner = owner_of(row.storage);
      const auto found = items_.find(owner);
      if (found == items_.end()) continue;
      // What the window before left elsewhere comes back to the table's offset, for such a row may never end.
      if (row.fill == Fill::kBoundary && found->second.at && found->second.at != row.offset) evict(owner);
      found->second.row = next_row_;
      if (!found->second.at && !try_page_in(next_row_)) waiting_.push_back(next_row_);
    }
  }

  void end_rows() {
    for (const std::uint32_t number : ending_[op_ + 1]) {
      const Row& row = plan_->rows[number];
      const auto found = items_.find(owner_of(row.storage));
      if (found == items_.end() || found->second.row != number) continue;
      if (row.leave == Leave::kBoundary) continue;
      found->second.row = kNone;
      // Never dropped on the plan's word alone: an unplanned op may have written it.
      if (found->second.at && (row.leave == Leave::kPageOut || row.leave == Leave::kDrop)) evict(found->first);
    }
  }

  // --- places

  bool is_pinned(Owner owner) const { return items_.at(owner).pinned_at == step_; }

  /// Evicts what is in a row's range; false where the op uses some of it.
  bool claim(const Row& row) {
    const Owners there = ground_->owners(row.offset, row.offset + row.bytes.count());
    if (std::ranges::any_of(there, [&](Owner owner) { return is_pinned(owner); })) return false;
    for (const Owner owner : there) evict(owner);
    return true;
  }

  /// The op before which the next planned block begins in a range.
  std::uint32_t next_planned(std::uint64_t begin, std::uint64_t end) const {
    for (std::size_t i = next_row_; i < plan_->rows.size(); ++i) {
      const Row& row = plan_->rows[i];
      if (row.offset < end && row.offset + row.bytes.count() > begin) return row.begin;
    }
    return kNone;
  }

  std::optional<std::uint64_t> find_place(std::uint64_t bytes) {
    const std::uint64_t reserve = plan_->space().count();
    for (const bool idle : {true, false}) {
      std::optional<std::uint64_t> best;
      std::uint32_t latest = 0;
      for (const Ground::Gap& gap : ground_->gaps(idle, clock_)) {
        const std::uint64_t in_reserve = std::max(gap.begin, reserve);
        if (gap.end >= in_reserve + bytes) return in_reserve;
        for (const std::uint64_t offset : {gap.begin, gap.end - std::min(gap.end, bytes)}) {
          if (offset < gap.begin || offset + bytes > gap.end) continue;
          const std::uint32_t next = next_planned(offset, offset + bytes);
          if (best && next <= latest) continue;
          best = offset;
          latest = next;
        }
      }
      if (best) return best;
    }
    return evict_cheapest(bytes);
  }

  /// Bytes to move, over the ops until they are used.
  double cost_of(const Item& item) const {
    std::uint32_t next = plan_->ops + op_;
    if (item.storage != plan::kTemporary) {
      for (const plan::Use& use : liveness_->uses(item.storage)) {
        if (use.op > op_) {
          next = use.op;
          break;
        }
      }
    }
    const double copies = item.below == item.version ? 1 : 2;
    return copies * static_cast<double>(item.bytes) / static_cast<double>(next - op_ + 1);
  }

  std::optional<std::uint64_t> evict_cheapest(std::uint64_t bytes) {
    const std::vector<std::pair<std::uint64_t, Ground::Block>> blocks(ground_->blocks().begin(),
                                                                      ground_->blocks().end());
    double best = 0;
    std::optional<std::pair<std::size_t, std::size_t>> chosen;
    for (std::size_t first = 0; first < blocks.size(); ++first) {
      const std::uint64_t begin = first == 0 ? 0 : blocks[first - 1].second.end;
      double cost = 0;
      for (std::size_t last = first; last < blocks.size() && !is_pinned(blocks[last].second.owner); ++last) {
        cost += cost_of(items_.at(blocks[last].second.owner));
        if (chosen && cost >= best) break;
        const std::uint64_t end = last + 1 < blocks.size() ? blocks[last + 1].first : ground_->size();
        if (end < begin + bytes) continue;
        best = cost;
        chosen = {first, last};
        break;
      }
    }
    if (!chosen) return std::nullopt;
    for (std::size_t i = chosen->first; i <= chosen->second; ++i) evict(blocks[i].second.owner);
    return chosen->first == 0 ? 0 : blocks[chosen->first - 1].second.end;
  }

  std::optional<std::uint64_t> place_for(const Item& item) {
    if (item.row != kNone) {
      const Row& row = plan_->rows[item.row];
      if (fits_row(item, row) && claim(row)) return row.offset;
    } else if (item.storage != plan::kTemporary) {
      for (const std::uint32_t number : rows_of_[index(item.storage)]) {
        const Row& row = plan_->rows[number];
        const std::uint64_t end = row.offset + row.bytes.count();
        if (row.begin <= op_ || row.fill != Fill::kPageIn) continue;
        const bool free = fits_row(item, row) && ground_->owners(row.offset, end).empty() &&
                          next_planned(row.offset, end) >= row.begin;
        if (free) return row.offset;
        break;
      }
    }
    return find_place(item.bytes);
  }

  /// Makes all of them resident; false where they are more than there is.
  bool gather(const Owners& working_set) {
    std::uint64_t bytes = 0;
    for (const Owner owner : working_set) {
      bytes += items_.at(owner).bytes;
      items_.at(owner).pinned_at = step_;
    }
    if (bytes > ground_->size()) return false;
    for (const Owner owner : working_set) {
      Item& item = items_.at(owner);
      if (item.at) continue;
      const auto offset = place_for(item);
      if (!offset) return stack(working_set);
      followed.on_demand += item.version > 0 && item.row == kNone ? 1 : 0;
      place(owner, *offset);
    }
    return true;
  }

  bool stack(Owners working_set) {
    Owners resident;
    for (const auto& [begin, block] : ground_->blocks()) resident.push_back(block.owner);
    for (const Owner owner : resident) evict(owner);
    std::ranges::sort(working_set, std::ranges::greater(), [&](Owner owner) { return items_.at(owner).bytes; });
    std::uint64_t top = 0;
    for (const Owner owner : working_set) {
      place(owner, top);
      top += items_.at(owner).bytes;
    }
    return true;
  }

  // --- ops

  void compute(const Owners& working_set, const Owners& written, Nanoseconds time) {
    for (const Owner owner : working_set) clock_ = std::max(clock_, items_.at(owner).arrives);
    for (const Owner owner : written) ++items_.at(owner).version;
    note_charged();
    clock_ += std::exchange(owed_, Nanoseconds(0)) + time;
    followed.compute += time;
  }

  void add(Owners& owners, Owner owner) const {
    if (items_.contains(owner) && std::ranges::find(owners, owner) == owners.end()) owners.push_back(owner);
  }

  void run_planned(const Step& step) {
    const trace::Op& op = trace_->ops[step.op];
    Owners working_set;
    Owners written;
    if (!step.left_out) {
      for (const StorageId id : op.reads) add(working_set, owner_of(id));
      for (const StorageId id : op.writes) {
        add(working_set, owner_of(id));
        add(written, owner_of(id));
      }
      for (const StorageId id : op.births) make(id, step, working_set, written);
      const std::uint64_t temporary = charged(op.temporary);
      if (!is_small(temporary)) {
        const auto row = births_.find(index(plan::kTemporary));
        items_[kUnplanned] = {.bytes = temporary, .row = row == births_.end() ? kNone : row->second};
        working_set.push_back(kUnplanned);
      }
      if (gather(working_set))
        compute(working_set, written, machine_.time_of(op));
      else
        ++followed.does_not_fit;
      bury(kUnplanned);
    }
    births_.erase(index(plan::kTemporary));
    for (const StorageId id : op.deaths) {
      if (!trace_->storages[index(id)].entry) bury(owner_of(id));
    }
    for (const StorageId id : op.deaths) forget_entry(id);
  }

  /// An entry that dies is born again: only its bytes go.
  void forget_entry(StorageId id) {
    if (trace_->storages[index(id)].entry) bury(owner_of(id));
  }

  void make(StorageId id, const Step& step, Owners& working_set, Owners& written) {
    const std::uint64_t planned = charged(trace_->storages[index(id)].bytes);
    if (is_small(planned)) return;
    const std::uint64_t bytes = step.grown ? charged(Bytes(planned + planned / 4)) : planned;
    const auto row = births_.find(index(id));
    const Owner owner = owner_of(id);
    items_[owner] = {.bytes = bytes, .storage = id, .row = row == births_.end() ? kNone : row->second};
    working_set.push_back(owner);
    written.push_back(owner);
  }

  void run_inserted(const Step& step) {
    Owners working_set;
    Owners written;
    for (const StorageId id : step.reads) add(working_set, owner_of(id));
    for (const StorageId id : step.writes) add(written, owner_of(id));
    if (const std::uint64_t bytes = charged(step.made); !is_small(bytes)) {
      const Owner made = kUnplanned + step_;
      items_[made] = {.bytes = bytes, .dies_at = step_ + step.life};
      working_set.push_back(made);
      written.push_back(made);
    }
    if (gather(working_set))
      compute(working_set, written, Nanoseconds(0));
    else
      ++followed.does_not_fit;
  }

  // --- what is measured

  void note_charged() {
    const Bytes charged = Bytes(ground_->charged(clock_)) + plan_->slab;
    TENSORPAGER_CHECK(charged <= budget_);
    followed.peak = std::max(followed.peak, charged);
  }

  bool is_off_plan(const Item& item) const {
    if (item.row == kNone) return item.at.has_value();
    const Row& row = plan_->rows[item.row];
    return item.at ? item.at != row.offset : row.need <= op_;
  }

  void account() {
    for (auto& [owner, item] : items_) {
      if (is_off_plan(item))
        item.off_since = item.off_since == 0 ? step_ : item.off_since;
      else
        note_on_plan(item);
    }
  }

  void note_on_plan(Item& item) {
    if (item.off_since == 0) return;
    followed.off_plan.push_back(static_cast<std::uint32_t>(step_ - item.off_since));
    item.off_since = 0;
  }

  const plan::Machine& machine_;
  Bytes budget_;
  const trace::Trace* trace_ = nullptr;
  const plan::Plan* plan_ = nullptr;
  std::unique_ptr<plan::Liveness> liveness_;
  std::unique_ptr<Ground> ground_;
  std::map<Owner, Item> items_;
  std::vector<std::vector<std::uint32_t>> rows_of_;  // of a storage
  std::vector<std::vector<std::uint32_t>> ending_;   // before an op
  std::map<std::uint32_t, std::uint32_t> births_;    // storage -> row that began for its birth
  std::vector<std::uint32_t> waiting_;               // rows whose page-in found its range taken
  std::uint32_t next_row_ = 0;
  std::uint64_t window_ = 0;
  std::uint64_t step_ = 0;
  std::uint32_t op_ = 0;
  Nanoseconds clock_{0};
  Nanoseconds owed_{0};  // for handling transfers, before the next op
  Nanoseconds out_free_{0};
  Nanoseconds in_free_{0};
};

Follower::Follower(const plan::Machine& machine, Bytes budget) : state_(std::make_unique<State>(machine, budget)) {}
Follower::~Follower() = default;
void Follower::run(const trace::Trace& trace, const plan::Plan& plan, const std::vector<Step>& steps) {
  state_->run(trace, plan, steps);
}
const Followed& Follower::outcome() const { return state_->followed; }

}  // namespace tensorpager::sim
