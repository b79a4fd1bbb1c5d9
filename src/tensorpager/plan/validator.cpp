#include "tensorpager/plan/validator.h"

#include <algorithm>
#include <deque>
#include <map>

#include "tensorpager/base/config.h"
#include "tensorpager/plan/rewriting.h"

namespace tensorpager::plan {
namespace {

using trace::index;

constexpr std::size_t kMaxViolations = 100;

class Walk {
 public:
  Walk(const trace::Trace& trace, const Plan& plan)
      : trace_(trace), plan_(plan), storages_(trace.storages.size()), small_(trace.slab.count()) {}

  std::vector<std::string> run() {
    if (plan_.ops != trace_.ops.size()) {
      wrong(0, "the plan is for " + std::to_string(plan_.ops) + " ops and the trace has " +
                   std::to_string(trace_.ops.size()));
      return violations_;
    }
    if (!check_rows()) return violations_;
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      const std::uint64_t bytes = charged(trace_.storages[i].bytes);
      storages_[i].small = bytes < base::kMinPagedBytes.count();
      if (trace_.storages[i].entry) begin_life(i);
    }
    for (window_ = 0; window_ < 2; ++window_) {
      next_row_ = 0;
      for (op_ = 0; op_ < plan_.ops; ++op_) {
        begin_rows();
        note_arrivals();
        run_op();
        end_rows();
      }
      note_arrivals();
    }
    return violations_;
  }

 private:
  enum class Place : std::uint8_t { kNowhere, kBelow, kResident, kAcross };
  struct Storage {
    Place place = Place::kNowhere;
    bool alive = false;
    bool small = false;
    bool copy = false;  // the tier has the same bytes
    std::uint32_t row = 0;
  };
  struct Block {
    std::uint64_t end;
    std::string what;
  };
  struct PageOut {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::size_t row;
    std::uint64_t number;  // among all page-outs that were submitted, from 1
  };

  std::uint64_t charged(base::Bytes bytes) const { return base::round_up(bytes, trace_.granule).count(); }

  static std::string name(const Row& row) {
    return row.storage == kTemporary ? "the temporary block" : "storage " + std::to_string(index(row.storage));
  }

  void wrong(std::uint32_t op, const std::string& what) {
    const std::string of = op < trace_.ops.size() ? " (" + trace_.ops[op].name + ")" : "";
    if (violations_.size() < kMaxViolations) violations_.push_back("op " + std::to_string(op) + of + ": " + what);
  }

  bool check_rows() {
    for (const Row& row : plan_.rows) {
      if (row.storage != kTemporary && index(row.storage) >= trace_.storages.size()) {
        wrong(row.begin, name(row) + " is none of the trace");
        continue;
      }
      if (row.begin >= plan_.ops || row.end > plan_.ops || row.end <= row.begin)
        wrong(row.begin, name(row) + " has ops that the window has not");
      if (row.storage != kTemporary && row.bytes.count() != charged(trace_.storages[index(row.storage)].bytes))
        wrong(row.begin, name(row) + " has " + std::to_string(row.bytes.count()) + " bytes in the plan");
      if (row.offset % trace_.granule.count() != 0) wrong(row.begin, name(row) + " is not aligned to the granule");
      if (row.offset + row.bytes.count() + plan_.slab.count() + plan_.reserve.count() > plan_.budget.count())
        wrong(row.begin, name(row) + " ends " +
                             std::to_string(row.offset + row.bytes.count() + plan_.slab.count() +
                                            plan_.reserve.count() - plan_.budget.count()) +
                             " bytes above the space for planned blocks");
    }
    for (std::size_t i = 0; i < plan_.rows.size(); ++i) {
      if (plan_.rows[i].leave == Leave::kPageOut) by_end_[plan_.rows[i].end].push_back(i);
    }
    for (const auto& [end, rows] : by_end_) {
      for (const std::size_t row : rows) ticket_rows_.push_back(row);
    }
    return violations_.empty();
  }

  void begin_life(std::size_t i) {
    storages_[i].alive = true;
    if (storages_[i].small)
      small_ += charged(trace_.storages[i].bytes);
    else if (storages_[i].place == Place::kNowhere)
      storages_[i] = {.place = Place::kBelow, .alive = true, .copy = true};
  }

  /// Waits for the newest page-out with that ticket, and all older ones.
  void wait_for(std::uint32_t ticket, bool in_queue) {
    if (ticket > ticket_rows_.size())
      return wrong(op_, "waits for ticket " + std::to_string(ticket) + ", which no page-out has");
    const std::size_t row = ticket_rows_[ticket - 1];
    const auto newest = std::find_if(under_way_.rbegin(), under_way_.rend(),
                                     [&](const PageOut& page_out) { return page_out.row == row; });
    if (newest == under_way_.rend()) return;
    const std::uint64_t number = newest->number;
    release_until(number);
    if (!in_queue) forget_until(number);
  }

  /// From now on compute knows that page-outs up to this number are done.
  void forget_until(std::uint64_t number) {
    while (!under_way_.empty() && under_way_.front().number <= number) under_way_.pop_front();
  }

  /// Page-outs up to this number are waited for, by a queue or by compute, and charged no longer.
  void release_until(std::uint64_t number) {
    for (const PageOut& page_out : under_way_) {
      if (page_out.number <= released_ || page_out.number > number) continue;
      blocks_.erase(page_out.offset);
      charged_ -= page_out.bytes;
    }
    released_ = std::max(released_, number);
  }

  void note_arrivals() {
    const auto arrivals = done_by_need_.find(op_);
    if (arrivals != done_by_need_.end()) forget_until(arrivals->second);
  }

  void begin_rows() {
    for (; next_row_ < plan_.rows.size() && plan_.rows[next_row_].begin == op_; ++next_row_) {
      const Row& row = plan_.rows[next_row_];
      const bool pages_in = row.fill == Fill::kPageIn;
      if (row.wait != 0) wait_for(row.wait, pages_in);
      if (pages_in) done_by_need_[row.need] = std::max(done_by_need_[row.need], released_);
      if (row.fill == Fill::kBoundary && window_ > 0) {
        resume(row);
        continue;
      }
      take(row);
      if (row.storage == kTemporary) {
        temporary_ += row.bytes.count();
        continue;
      }
      Storage& storage = storages_[index(row.storage)];
      if (storage.small) wrong(op_, name(row) + " is too small for a row");
      if (storage.place == Place::kResident) wrong(op_, name(row) + " is resident twice");
      if (row.fill != Fill::kBorn && storage.place != Place::kBelow) wrong(op_, name(row) + " is not below");
      if (row.fill == Fill::kBorn && storage.alive) wrong(op_, name(row) + " is born while it is alive");
      storage.place = Place::kResident;
      storage.copy = row.fill != Fill::kBorn;
      storage.row = static_cast<std::uint32_t>(next_row_);
    }
  }

  void take(const Row& row) {
    const std::uint64_t end = row.offset + row.bytes.count();
    auto other = blocks_.lower_bound(row.offset);
    if (other != blocks_.begin() && std::prev(other)->second.end > row.offset) --other;
    if (other != blocks_.end() && other->first < end)
      wrong(op_, name(row) + " takes the block of " + other->second.what);
    if (row.fill == Fill::kBorn) check_copies(row, end);
    blocks_.emplace(row.offset, Block{end, name(row)});
    charged_ += row.bytes.count();
    if (charged_ + plan_.slab.count() > plan_.budget.count())
      wrong(op_, std::to_string(charged_ + plan_.slab.count() - plan_.budget.count()) + " bytes over the budget");
  }

  /// Reports a violation if compute may write bytes that a page-out still reads.
  void check_copies(const Row& row, std::uint64_t end) {
    for (const PageOut& page_out : under_way_) {
      if (page_out.number <= released_ && page_out.offset < end && row.offset < page_out.offset + page_out.bytes)
        wrong(op_, name(row) + " takes bytes of " + name(plan_.rows[page_out.row]) +
                       " that are still paged out: page-ins waited for it, compute did not");
    }
  }

  void resume(const Row& row) {
    Storage& storage = storages_[index(row.storage)];
    if (storage.place != Place::kAcross || plan_.rows[storage.row].offset != row.offset)
      wrong(op_, name(row) + " is not at this offset when the window before ends");
    storage.place = Place::kResident;
    storage.row = static_cast<std::uint32_t>(next_row_);
  }

  void use(trace::StorageId id, bool write) {
    Storage& storage = storages_[index(id)];
    if (storage.small) return;
    if (storage.place != Place::kResident || plan_.rows[storage.row].need > op_)
      wrong(op_, "uses storage " + std::to_string(index(id)) + ", which is not resident");
    if (write) storage.copy = false;
  }

  void run_op() {
    const trace::Op& op = trace_.ops[op_];
    for (const trace::StorageId id : op.births) begin_life(index(id));
    for (const trace::StorageId id : op.reads) use(id, false);
    for (const trace::StorageId id : op.writes) use(id, true);
    for (const trace::StorageId id : op.births) use(id, true);
    const std::uint64_t temporary = charged(op.temporary);
    const bool is_small = temporary < base::kMinPagedBytes.count();
    if (small_ + (is_small ? temporary : 0) > plan_.slab.count())
      wrong(op_, "small storages are more than the slab's " + std::to_string(plan_.slab.count()) + " bytes");
    if (!is_small && temporary_ < temporary)
      wrong(op_, "has no block for its " + std::to_string(temporary) + " temporary bytes");
    temporary_ = 0;
    for (const trace::StorageId id : op.deaths) {
      Storage& storage = storages_[index(id)];
      storage.alive = false;
      if (storage.small) small_ -= charged(trace_.storages[index(id)].bytes);
      if (storage.place == Place::kResident && plan_.rows[storage.row].end != op_ + 1)
        wrong(op_, "storage " + std::to_string(index(id)) + " dies and stays resident");
      if (storage.place == Place::kBelow) storage.place = Place::kNowhere;
    }
  }

  void end_rows() {
    for (std::size_t i = 0; i < next_row_; ++i) {
      const Row& row = plan_.rows[i];
      if (row.end != op_ + 1) continue;
      if (row.leave == Leave::kPageOut)
        under_way_.push_back({row.offset, row.bytes.count(), i, ++submitted_});
      else if (row.leave != Leave::kBoundary)
        give_back(row);
      if (row.storage != kTemporary) leave(row);
    }
  }

  void give_back(const Row& row) {
    blocks_.erase(row.offset);
    charged_ -= row.bytes.count();
  }

  void leave(const Row& row) {
    Storage& storage = storages_[index(row.storage)];
    if (!storage.alive) {
      if (row.leave != Leave::kDies) wrong(op_, name(row) + " dies here, and the plan keeps it");
      storage.place = Place::kNowhere;
      return;
    }
    if (row.leave == Leave::kDies) wrong(op_, name(row) + " does not die here");
    if (row.leave == Leave::kBoundary) {
      if (op_ + 1 != plan_.ops) wrong(op_, name(row) + " leaves by the boundary before it");
      storage.place = Place::kAcross;
      return;
    }
    // In the first window, storages from the boundary may be clean or dirty; after another class they are dirty.
    const bool unknown = window_ == 0 && row.fill == Fill::kBoundary && !plan_.shared_boundary;
    if (plan_.shared_boundary && row.fill == Fill::kBoundary) storage.copy = false;
    if (row.leave == Leave::kDrop && !storage.copy && !unknown)
      wrong(op_, name(row) + " is dropped, and its bytes are nowhere else");
    storage.copy = true;
    storage.place = Place::kBelow;
  }

  const trace::Trace& trace_;
  const Plan& plan_;
  std::vector<Storage> storages_;
  std::map<std::uint64_t, Block> blocks_;  // by offset: resident, or page-outs not waited for
  std::deque<PageOut> under_way_;          // not known to be done by compute; oldest first
  std::map<std::uint32_t, std::uint64_t>
      done_by_need_;  // page-outs that compute knows to be done, once it waited there
  std::uint64_t submitted_ = 0;
  std::uint64_t released_ = 0;  // of those, up to which all are done for the next page-in and charged no longer
  std::map<std::uint32_t, std::vector<std::size_t>> by_end_;
  std::vector<std::size_t> ticket_rows_;
  std::uint64_t charged_ = 0;
  std::uint64_t small_ = 0;
  std::uint64_t temporary_ = 0;
  std::size_t next_row_ = 0;
  std::uint32_t op_ = 0;
  int window_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> validate(const trace::Trace& trace, const Plan& plan) {
  if (plan.replays.empty()) return Walk(trace, plan).run();
  const auto rewriting = rewrite(trace, plan.replays);
  if (!rewriting) return {describe(rewriting.error(), plan.replays)};
  return Walk(rewriting->trace, plan).run();
}

std::vector<std::string> validate_boundary(const trace::Trace& trace, const Plan& plan, const BoundaryTable& table) {
  std::vector<std::string> violations;
  if (!plan.shared_boundary) violations.emplace_back("the plan was not made for a boundary table");
  std::map<std::uint64_t, BoundaryEntry> missing;
  for (const BoundaryEntry& entry : table.entries) missing.emplace(entry.identity, entry);
  for (const Row& row : plan.rows) {
    if (row.fill != Fill::kBoundary || index(row.storage) >= trace.storages.size()) continue;
    const std::string storage = "storage " + std::to_string(index(row.storage));
    const auto identity = trace.storages[index(row.storage)].identity;
    const auto entry = identity ? missing.find(*identity) : missing.end();
    if (entry == missing.end())
      violations.push_back(storage + " comes from the boundary and is not in the table");
    else if (entry->second.offset != row.offset || entry->second.bytes != row.bytes)
      violations.push_back(storage + " has another offset or size in the table");
    if (entry != missing.end()) missing.erase(entry);
  }
  for (const auto& [identity, entry] : missing)
    violations.push_back("the storage with identity " + std::to_string(identity) + " does not come from the boundary");
  return violations;
}

}  // namespace tensorpager::plan
