#include "tensorpager/trace/recorder.h"

#include <algorithm>

namespace tensorpager::trace {

using base::Bytes;

Recorder::Op* Recorder::find(Ticket op) {
  return op >= first_ && op < first_ + ops_.size() ? &ops_[op - first_] : nullptr;
}

Recorder::Ticket Recorder::whose(Ticket op) const { return op == 0 && open_.size() == 1 ? open_.front() : op; }

Recorder::Ticket Recorder::append(const base::OpFacts& facts) {
  if (ops_.size() >= 2 * most_ops_) forget_oldest();
  ops_.push_back({.facts = facts,
                  .touched = {},
                  .arguments = 0,
                  .births = {},
                  .made = {},
                  .deaths = {},
                  .temporary = {},
                  .beside = beside_bytes_,
                  .time = {},
                  .slab = slab_,
                  .optimizer_step = optimizers_ > 0 ? optimizer_steps_ : 0,
                  .steps_before = marked_steps_,
                  .thread = computes_ == Computes::kOnHost ? std::this_thread::get_id() : std::thread::id(),
                  .open = true});
  return first_ + ops_.size() - 1;
}

Recorder::Ticket Recorder::op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept {
  const std::lock_guard lock(mutex_);
  op_time_ += facts.before;
  if (!ops_.empty()) ops_.back().time += facts.before;
  const Ticket ticket = append(facts);
  open_.push_back(ticket);
  ops_.back().untimed = computes_ == Computes::kOnDevice ? 1 : 0;
  ops_.back().touched.assign(touched.begin(), touched.end());
  ops_.back().arguments = touched.size();
  return ticket;
}

void Recorder::op_touches(Ticket op, std::span<const base::Touch> touched) noexcept {
  const std::lock_guard lock(mutex_);
  if (Op* found = find(op)) found->touched.insert(found->touched.end(), touched.begin(), touched.end());
}

Recorder::Ticket Recorder::op_ends(Ticket ticket, std::chrono::nanoseconds took) noexcept {
  const std::lock_guard lock(mutex_);
  op_time_ += took;
  std::erase(open_, ticket);
  Op* op = find(ticket);
  if (op == nullptr) return ticket;
  settle_temporaries(*op, ticket);
  op->time += took;
  op->slab = slab_;
  op->open = false;
  const bool is_empty = op->touched.empty() && op->births.empty() && op->deaths.empty() && op->temporary == Bytes(0);
  if (!is_empty || op != &ops_.back()) return ticket;
  const std::uint32_t untimed = op->untimed;
  const Bytes beside = op->beside;
  ops_.pop_back();
  if (ops_.empty()) return 0;
  ops_.back().beside = std::max(ops_.back().beside, beside);
  ops_.back().time += took;
  ops_.back().untimed += untimed;
  return ticket - 1;
}

void Recorder::op_timed(Ticket ticket, std::chrono::nanoseconds took) noexcept {
  const std::lock_guard lock(mutex_);
  op_time_ += took;
  Op* const op = find(ticket);
  if (op == nullptr) return;
  op->time += took;
  op->untimed -= op->untimed > 0 ? 1 : 0;
}

void Recorder::block_born(Ticket ticket, const base::NewBlock& block) noexcept {
  const std::lock_guard lock(mutex_);
  if (ticket == kBeside) {
    beside_[block.number] = block.charged;
    beside_bytes_ += block.charged;
    if (!ops_.empty()) ops_.back().beside = std::max(ops_.back().beside, beside_bytes_);
    return;
  }
  ticket = whose(ticket);
  if (Op* op = find(ticket)) {
    op->births.push_back(block);
    changes_[ticket].push_back({block.number, block.charged, true});
    return;
  }
  append({.name = base::kOutside});
  ops_.back().births.push_back(block);
  ops_.back().made.push_back(0);
  ops_.back().open = false;
}

void Recorder::block_died(Ticket ticket, std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto beside = beside_.extract(number)) {
    beside_bytes_ -= beside.mapped();
    return;
  }
  ticket = whose(ticket);
  if (Op* op = find(ticket)) {
    const auto birth = std::find_if(op->births.rbegin(), op->births.rend(),
                                    [&](const base::NewBlock& one) { return one.number == number; });
    if (birth != op->births.rend()) {
      changes_[ticket].push_back({number, birth->charged, false});
      op->births.erase(std::next(birth).base());
      return;
    }
  }
  if (ops_.empty())
    alive_before_.erase(number);
  else
    ops_.back().deaths.push_back(number);
}

/// Computes the op's temporary bytes, from blocks that are dead by now, and the place of each other birth.
void Recorder::settle_temporaries(Op& op, Ticket ticket) {
  auto changes = changes_.extract(ticket);
  if (changes.empty()) return;
  std::uint32_t place = 0;
  for (const Change& change : changes.mapped()) {
    if (op.made.size() == op.births.size()) break;
    if (!change.is_birth) continue;
    if (change.number == op.births[op.made.size()].number) op.made.push_back(place);
    ++place;
  }
  std::erase_if(changes.mapped(), [&](const Change& change) {
    return std::ranges::find(op.births, change.number, &base::NewBlock::number) != op.births.end();
  });
  const Bytes most =
      temporaries_ == Temporaries::kApart ? largest_sum(changes.mapped()) : length_of_piece(changes.mapped());
  op.temporary = std::max(op.temporary, most);
}

Bytes Recorder::largest_sum(const std::vector<Change>& changes) {
  Bytes now, most;
  for (const Change& change : changes) {
    now = change.is_birth ? now + change.charged : now - change.charged;
    most = std::max(most, now);
  }
  return most;
}

/// The length of one piece of memory in which each block is put into the first gap that holds it.
Bytes Recorder::length_of_piece(const std::vector<Change>& changes) {
  struct Place {
    std::uint64_t number, begin, end;
  };
  std::vector<Place> places;  // by begin
  std::uint64_t length = 0;
  for (const Change& change : changes) {
    if (!change.is_birth) {
      std::erase_if(places, [&](const Place& one) { return one.number == change.number; });
      continue;
    }
    std::uint64_t begin = 0;
    auto next = places.begin();
    for (; next != places.end() && next->begin < begin + change.charged.count(); ++next) begin = next->end;
    places.insert(next, {change.number, begin, begin + change.charged.count()});
    length = std::max(length, begin + change.charged.count());
  }
  return Bytes(length);
}

void Recorder::slab_grew(Bytes slab) noexcept {
  const std::lock_guard lock(mutex_);
  slab_ = slab;
}

void Recorder::hint(base::Hint hint) noexcept {
  const std::lock_guard lock(mutex_);
  switch (hint) {
    case base::Hint::kOptimizerBegins:
      optimizer_steps_ += optimizers_++ == 0 ? 1 : 0;
      return;
    case base::Hint::kOptimizerEnds:
      optimizers_ -= optimizers_ > 0 ? 1 : 0;
      return;
    case base::Hint::kStepEnds:
      ++marked_steps_;
      return;
  }
}

std::chrono::nanoseconds Recorder::op_time() const {
  const std::lock_guard lock(mutex_);
  return op_time_;
}

void Recorder::restart() noexcept {
  const std::lock_guard lock(mutex_);
  first_ += ops_.size();
  ops_.clear();
  open_.clear();
  alive_before_.clear();
  changes_.clear();
  beside_.clear();
  beside_bytes_ = {};
}

void Recorder::keep(std::size_t most_ops) noexcept {
  const std::lock_guard lock(mutex_);
  most_ops_ = std::max(most_ops_, most_ops);
}

void Recorder::forget_oldest() {
  for (std::size_t i = 0; i < most_ops_ && !ops_.front().open; ++i) {
    const Op& op = ops_.front();
    for (const base::NewBlock& block : op.births)
      alive_before_[block.number] = {block.size, op.facts.name, op.facts.backward};
    for (const std::uint64_t number : op.deaths) alive_before_.erase(number);
    ops_.pop_front();
    ++first_;
  }
}

Stream Recorder::stream() const {
  const std::lock_guard lock(mutex_);
  Stream stream{.granule = granule_, .storages = {}, .ops = {}, .first = first_ - 1};
  std::unordered_map<std::uint64_t, std::size_t> places;
  const auto add = [&](std::uint64_t number, const StreamStorage& storage) {
    places[number] = stream.storages.size();
    stream.storages.push_back(storage);
  };
  std::vector<std::uint64_t> before;
  before.reserve(alive_before_.size());
  for (const auto& [number, origin] : alive_before_) before.push_back(number);
  std::sort(before.begin(), before.end());
  for (const std::uint64_t number : before) {
    const Origin& origin = alive_before_.at(number);
    add(number, {.bytes = origin.bytes, .maker = origin.maker, .from_backward = origin.from_backward, .block = number});
  }
  for (const Op& op : ops_) {
    if (op.open || op.untimed > 0) break;
    const std::size_t at = stream.ops.size();
    StreamOp& made = stream.ops.emplace_back(StreamOp{.facts = op.facts,
                                                      .touched = {},
                                                      .arguments = 0,
                                                      .births = {},
                                                      .made = {},
                                                      .deaths = {},
                                                      .temporary = op.temporary + op.beside,
                                                      .time = op.time,
                                                      .slab = op.slab,
                                                      .optimizer_step = op.optimizer_step,
                                                      .steps_before = op.steps_before,
                                                      .thread = op.thread});
    // Each storage once, without those that another thread's op makes later in the order or that died as temporaries.
    for (std::size_t i = 0; i < op.touched.size(); ++i) {
      if (i == op.arguments) made.arguments = made.touched.size();
      const base::Touch& touch = op.touched[i];
      const auto place = places.find(touch.block);
      if (place == places.end()) continue;
      const auto same = std::find_if(made.touched.begin(), made.touched.end(),
                                     [&](const StreamTouch& one) { return one.storage == place->second; });
      if (same == made.touched.end())
        made.touched.push_back({place->second, touch.written});
      else
        same->written |= touch.written;
    }
    // Births and deaths after the end of the op are not in the recorded order.
    if (op.made.size() == op.births.size()) made.made = op.made;
    if (op.touched.size() == op.arguments) made.arguments = made.touched.size();
    for (const base::NewBlock& block : op.births) {
      made.births.push_back(stream.storages.size());
      add(block.number, {.bytes = block.size,
                         .born = at,
                         .maker = op.facts.name,
                         .from_backward = op.facts.backward,
                         .block = block.number});
    }
    for (const std::uint64_t number : op.deaths) {
      const auto place = places.find(number);
      if (place == places.end()) continue;
      made.deaths.push_back(place->second);
      stream.storages[place->second].died = at;
    }
  }
  return stream;
}

}  // namespace tensorpager::trace
