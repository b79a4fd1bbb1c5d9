#include "tensorpager/follow/plan_switch.h"

#include <algorithm>

namespace tensorpager::follow {

namespace {

std::uint32_t alike(const Agenda& one, const Agenda& other) {
  std::uint32_t ops = 0;
  while (ops < std::min(one.ops(), other.ops()) && one.signature(ops) == other.signature(ops)) ++ops;
  return ops;
}

}  // namespace

PlanSwitch::PlanSwitch(const std::vector<std::shared_ptr<const Agenda>>& agendas) : history_(agendas.size()) {
  for (const auto& agenda : agendas) {
    cursors_.push_back(std::make_unique<PlanCursor>(agenda));
    auto& row = alike_.emplace_back();
    for (const auto& other : agendas) row.push_back(alike(*agenda, *other));
  }
}

void PlanSwitch::begin_here() {
  for (const auto& cursor : cursors_) cursor->begin_here();
}

void PlanSwitch::start_after(std::size_t i) {
  active_ = i;
  history_.start_after(i);
}

bool PlanSwitch::begin_op(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) {
  const std::size_t likely = active().position() == 0 ? history_.likely_next().value_or(active_) : active_;
  if (likely != active_ && cursors_[likely]->expects(op))
    change_to(likely, 0, actions);
  else if (!active().expects(op))
    turn_to_another(op, actions);
  bool is_expected = active().begin_op(op, touched, actions);
  if (!is_expected) {
    if (const auto other = find_beginning(op)) {
      change_to(*other, 1, actions);
      is_expected = active().begin_op(op, touched, actions);
    }
  }
  for (Block* block : active().replaced()) unplanned_.add(*block);
  if (is_expected && (active().position() == 0 || windows() != windows_at_leave_)) {
    windows_at_leave_ = windows();
    if (!unplanned_.leave([&](const Block& block) { return is_known(block); }, actions)) active().note_disturbed();
  }
  if (op.sizes != 0 || is_expected) before_ = op;  // other ops are probably of no plan
  return is_expected;
}

void PlanSwitch::turn_to_another(const OpSignature& op, std::vector<Action>& actions) {
  if (const auto other = find_other(op)) return change_to(*other, active().position(), actions);
  if (const auto longer = find_longer(op)) {
    history_.take_back();
    return change_to(*longer, active().agenda().ops(), actions);
  }
  const auto shorter = find_shorter();
  const auto next = find_expecting(op);
  if (!shorter || !next) return;
  change_to(*shorter, active().position(), actions);
  active().leave(actions);  // it is over
  history_.note(*shorter);
  if (*next != active_) change_to(*next, 0, actions);
}

/// A class that begins as this window did, and continues with this op; nullopt if there is none.
std::optional<std::size_t> PlanSwitch::find_other(const OpSignature& op) const {
  const std::uint32_t position = cursors_[active_]->position();
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    if (i == active_ || alike_[active_][i] < position) continue;
    const Agenda& agenda = cursors_[i]->agenda();
    if (position < agenda.ops() && agenda.signature(position) == op) return i;
  }
  return std::nullopt;
}

/// A class that begins as the whole last window was, and continues with this op: then that was no window by itself.
std::optional<std::size_t> PlanSwitch::find_longer(const OpSignature& op) const {
  const Agenda& last = cursors_[active_]->agenda();
  const bool is_at_begin = cursors_[active_]->position() == 0 && history_.last() == active_;
  if (!is_at_begin || before_ != last.signature(last.ops() - 1)) return std::nullopt;
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    const Agenda& agenda = cursors_[i]->agenda();
    const bool is_longer = alike_[active_][i] == last.ops() && agenda.ops() > last.ops();
    if (is_longer && agenda.signature(last.ops()) == op) return i;
  }
  return std::nullopt;
}

/// A class that ends where this window is: then the window was one of those.
std::optional<std::size_t> PlanSwitch::find_shorter() const {
  const std::uint32_t position = cursors_[active_]->position();
  for (std::size_t i = 0; i < cursors_.size(); ++i)
    if (i != active_ && cursors_[i]->agenda().ops() == position && alike_[active_][i] == position) return i;
  return std::nullopt;
}

std::optional<std::size_t> PlanSwitch::find_expecting(const OpSignature& op) const {
  for (std::size_t i = 0; i < cursors_.size(); ++i)
    if (cursors_[i]->agenda().signature(0) == op) return i;
  return std::nullopt;
}

/// A class that begins with the op before and this one.
std::optional<std::size_t> PlanSwitch::find_beginning(const OpSignature& op) const {
  if (!before_) return std::nullopt;
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    const Agenda& agenda = cursors_[i]->agenda();
    if (i != active_ && agenda.ops() > 1 && agenda.signature(0) == *before_ && agenda.signature(1) == op) return i;
  }
  return std::nullopt;
}

void PlanSwitch::change_to(std::size_t other, std::uint32_t position, std::vector<Action>& actions) {
  PlanCursor& next = *cursors_[other];
  next.leave(actions);
  next.enter(position, position <= alike_[active_][other] ? active() : next);
  active().leave(actions);
  active_ = other;
}

void PlanSwitch::end_op(std::vector<Action>& actions) {
  const std::uint64_t windows = active().windows();
  active().end_op(actions);
  if (active().windows() != windows) history_.note(active_);
}

/// Plans number their ops each for itself.
std::uint64_t PlanSwitch::of_active(std::uint64_t op) const { return op == 0 ? 0 : op + (active_ << kOpBits); }

std::optional<DueReplay> PlanSwitch::due_replay(const OpSignature& next) const {
  auto due = active().due_replay(next);
  if (due) due->of = of_active(due->of);
  return due;
}

std::uint64_t PlanSwitch::replayed_later() const { return of_active(active().replayed_later()); }

void PlanSwitch::created(Block& block) {
  if (!active().is_in_op()) unplanned_.add(block);
  active().created(block);
}

bool PlanSwitch::is_known(const Block& block) const {
  return std::ranges::any_of(cursors_, [&](const auto& cursor) { return cursor->knows(block); });
}

void PlanSwitch::died(Block& block) noexcept {
  unplanned_.forget(block);
  for (const auto& cursor : cursors_) cursor->died(block);
}

base::Bytes PlanSwitch::planned_space() const {
  base::Bytes most;
  for (const auto& cursor : cursors_) most = std::max(most, cursor->planned_space());
  return most;
}

std::uint64_t PlanSwitch::followed_ops() const {
  std::uint64_t sum = 0;
  for (const auto& cursor : cursors_) sum += cursor->followed_ops();
  return sum;
}

std::uint64_t PlanSwitch::resized_ops() const {
  std::uint64_t sum = 0;
  for (const auto& cursor : cursors_) sum += cursor->resized_ops();
  return sum;
}

/// Windows that ended, or whose last ops were left out.
std::uint64_t PlanSwitch::windows() const {
  std::uint64_t sum = 0;
  for (const auto& cursor : cursors_) sum += cursor->windows();
  return sum;
}

std::uint64_t PlanSwitch::misses() const {
  std::uint64_t sum = 0;
  for (const auto& cursor : cursors_) sum += cursor->misses();
  return sum;
}

}  // namespace tensorpager::follow
