#include "tensorpager/pager/plan_cursor.h"

#include <algorithm>
#include <utility>

namespace tensorpager::pager {

using plan::Fill;
using plan::Leave;
using plan::OpSignature;
using plan::Row;
using plan::StorageId;
using trace::index;

namespace {

/// Ops that may be left out at one time; a program that leaves out more is found again at the window's begin.
constexpr std::uint32_t kFurthest = 64;

}  // namespace

PlanCursor::PlanCursor(std::shared_ptr<const plan::Agenda> agenda)
    : agenda_(std::move(agenda)), blocks_(agenda_->storages()) {}

void PlanCursor::bind(StorageId storage, Block& block) {
  if (Block* before = std::exchange(blocks_[index(storage)], &block)) storages_.erase(before);
  storages_[&block] = storage;
}

bool PlanCursor::begin_op(const OpSignature& op, std::vector<Action>& actions) {
  born_.clear();
  placed_.clear();
  in_op_ = false;
  const OpSignature& expected = agenda_->signature(position_);
  if (op.name != expected.name) {
    const auto further_on = find_further_on(op);
    if (!further_on) {
      ++misses_;
      missed_ = op;
      return false;
    }
    skip_to(*further_on, actions);
  } else if (op.sizes != expected.sizes) {
    ++misses_;
  }
  missed_.reset();
  in_op_ = true;
  ++followed_;
  begin_rows(actions);
  return true;
}

/// Where this op comes after the one that was missed: within the next few ops, or at the window's begin.
std::optional<std::uint32_t> PlanCursor::find_further_on(const OpSignature& op) const {
  if (!missed_) return std::nullopt;
  const auto comes_at = [&](std::uint32_t at) {
    return agenda_->signature(at) == op && agenda_->signature(at - 1) == *missed_;
  };
  const std::uint32_t end = std::min(agenda_->ops(), position_ + kFurthest);
  for (std::uint32_t at = position_ + 1; at < end; ++at)
    if (comes_at(at)) return at;
  if (agenda_->ops() > 1 && comes_at(1)) return 1;
  return std::nullopt;
}

void PlanCursor::skip_to(std::uint32_t op, std::vector<Action>& actions) {
  while (position_ != op) {
    begin_rows(actions, op);
    end_rows(actions);
  }
}

void PlanCursor::begin_rows(std::vector<Action>& actions, std::optional<std::uint32_t> skipping_to) {
  for (const std::uint32_t i : agenda_->beginning(position_)) {
    const Row& row = agenda_->row(i);
    const bool pages_in = row.fill == Fill::kPageIn;
    if (row.wait != 0) await(row.wait, pages_in ? Action::Kind::kAwaitQueued : Action::Kind::kAwait, actions);
    if (!pages_in) continue;
    const bool is_over = skipping_to && row.begin < *skipping_to && row.end <= *skipping_to;
    Block* block = blocks_[index(row.storage)];
    if (block != nullptr && !is_over) actions.push_back({Action::Kind::kPageIn, block, row.offset});
  }
}

/// For the newest page-out with this ticket and all that are older.
void PlanCursor::await(std::uint32_t ticket, Action::Kind kind, std::vector<Action>& actions) {
  const auto newest = std::find_if(page_outs_.rbegin(), page_outs_.rend(),
                                   [&](const PageOut& page_out) { return page_out.ticket == ticket; });
  for (auto count = page_outs_.rend() - newest; count > 0; --count) {
    if (Block* block = page_outs_.front().block) actions.push_back({kind, block});
    page_outs_.pop_front();
  }
}

void PlanCursor::end_op(std::vector<Action>& actions) {
  match_births();
  in_op_ = false;
  end_rows(actions);
}

void PlanCursor::match_births() {
  const auto expected = agenda_->births(position_);
  bool as_expected = born_.size() == expected.size();
  if (as_expected) {
    for (std::size_t k = 0; k < expected.size(); ++k) {
      bind(expected[k].storage, *born_[k]);
      as_expected &= born_[k]->size == expected[k].size;
    }
  } else {
    std::size_t k = 0;
    for (Block* block : born_) {
      std::size_t match = k;
      while (match < expected.size() && expected[match].size != block->size) ++match;
      if (match == expected.size()) continue;
      bind(expected[match].storage, *block);
      k = match + 1;
    }
  }
  if (!as_expected) ++misses_;
  born_.clear();
}

void PlanCursor::end_rows(std::vector<Action>& actions) {
  ++position_;
  for (const std::uint32_t i : agenda_->leaving(position_)) {
    const Row& row = agenda_->row(i);
    if (row.leave != Leave::kPageOut && row.leave != Leave::kDrop) continue;
    Block* block = blocks_[index(row.storage)];
    if (block != nullptr) actions.push_back({Action::Kind::kPageOut, block});
    if (row.leave == Leave::kPageOut) page_outs_.push_back({agenda_->ticket(i), windows_, block});
  }
  if (position_ < agenda_->ops()) return;
  for (const std::uint32_t i : agenda_->arriving_at_end())
    if (Block* block = blocks_[index(agenda_->row(i).storage)]) actions.push_back({Action::Kind::kNeed, block});
  position_ = 0;
  ++windows_;
  // Each is awaited within a window, but where ops were left out.
  while (!page_outs_.empty() && page_outs_.front().window + 2 < windows_) page_outs_.pop_front();
}

void PlanCursor::created(Block& block) {
  if (in_op_) born_.push_back(&block);
}

void PlanCursor::died(Block& block) noexcept {
  std::erase(born_, &block);
  const auto known = storages_.find(&block);
  if (known == storages_.end()) return;
  blocks_[index(known->second)] = nullptr;
  storages_.erase(known);
}

/// The first birth of this size that has no block yet, or what the op allocates for itself.
std::optional<std::uint64_t> PlanCursor::place_of_birth(base::Bytes size, base::Bytes charged) {
  if (!in_op_) return std::nullopt;
  StorageId found = plan::kTemporary;
  for (const plan::Agenda::Birth& birth : agenda_->births(position_)) {
    if (birth.size != size || std::ranges::find(placed_, birth.storage) != placed_.end()) continue;
    found = birth.storage;
    break;
  }
  if (std::ranges::find(placed_, found) != placed_.end()) return std::nullopt;
  placed_.push_back(found);
  return place_of(found, charged);
}

std::optional<std::uint64_t> PlanCursor::place_of(StorageId storage, base::Bytes charged) const {
  for (const std::uint32_t i : agenda_->beginning(position_)) {
    const Row& row = agenda_->row(i);
    if (row.fill == Fill::kBorn && row.storage == storage && row.bytes == charged) return row.offset;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> PlanCursor::next_use(const Block& block) const {
  const auto known = storages_.find(&block);
  if (known == storages_.end()) return std::nullopt;
  // The op that is expected may be the very one, if none is under way.
  const std::uint32_t last = in_op_ ? position_ : (position_ == 0 ? agenda_->ops() : position_) - 1;
  return agenda_->next_use(known->second, last);
}

}  // namespace tensorpager::pager
