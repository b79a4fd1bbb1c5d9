#include "tensorpager/pager/states.h"

#include <array>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::pager {

namespace {

using R = Residence;

constexpr Transition kTransitions[] = {
    {R::kResident, R::kLeaving, "a page-out is submitted, or a clean block is dropped"},
    {R::kLeaving, R::kBelow, "its page-out is finished, or its place is passed on before the copy is done"},
    {R::kLeaving, R::kResident, "the page-out is cancelled, as somebody needs the block, or it failed"},
    {R::kLeaving, R::kPassedOn, "page-ins that are queued behind the page-out get its pages"},
    {R::kPassedOn, R::kBelow, "its page-out is finished"},
    {R::kPassedOn, R::kResident, "its page-out failed; the page-ins behind it are cancelled"},
    {R::kBelow, R::kArriving, "a page-in is submitted"},
    {R::kArriving, R::kResident, "the page-in is finished"},
    {R::kArriving, R::kBelow, "the page-in is cancelled, or it failed"},
    {R::kResident, R::kDropped, "it is dropped, as a replay can rebuild its bytes"},
    {R::kDropped, R::kResident, "a replay has rebuilt it"},
    {R::kResident, R::kDead, "its storage dies"},
    {R::kBelow, R::kDead, "its storage dies"},
    {R::kDropped, R::kDead, "its storage dies"},
    {R::kOrphaned, R::kDead, "its copy is done"},
};

constexpr std::size_t index(Residence residence) { return static_cast<std::size_t>(residence); }

bool is_absent(Residence residence) {
  return residence == R::kLeaving || residence == R::kPassedOn || residence == R::kBelow || residence == R::kArriving ||
         residence == R::kDropped;
}

}  // namespace

std::span<const Transition> transitions() { return kTransitions; }

bool may_become(Residence from, Residence to) {
  // By `from`, a bit for each `to`: every death and every transfer asks.
  static constexpr auto kAllowed = [] {
    std::array<std::uint8_t, index(R::kDead) + 1> allowed{};
    for (const Transition& one : kTransitions)
      allowed[index(one.from)] |= static_cast<std::uint8_t>(1u << index(one.to));
    return allowed;
  }();
  return (kAllowed[index(from)] >> index(to) & 1) != 0;
}

std::string_view to_string(Residence residence) {
  switch (residence) {
    case R::kResident:
      return "resident";
    case R::kLeaving:
      return "leaving";
    case R::kPassedOn:
      return "passed on";
    case R::kBelow:
      return "below";
    case R::kArriving:
      return "arriving";
    case R::kDropped:
      return "dropped";
    case R::kOrphaned:
      return "orphaned";
    case R::kDead:
      return "dead";
  }
  return "";
}

BlockTable::BlockTable(std::unique_ptr<EvictionPolicy> policy) : policy_(std::move(policy)) {}

void BlockTable::add_resident(Block& block) {
  block.residence = R::kResident;
  ledger_.born(block.charged);
  policy_->add(block);
}

void BlockTable::add_orphan(Block& block) {
  block.residence = R::kOrphaned;
  ledger_.page_in(block.charged);
}

void BlockTable::change(Block& block, Residence to, std::uint64_t word) {
  const Residence from = std::exchange(block.residence, to);
  TENSORPAGER_CHECK(may_become(from, to));
  if (from != R::kResident || to != R::kDead) ++changes_;
  if (is_absent(from) && !is_absent(to)) remove_absent(block);
  if (from == R::kResident) {
    TENSORPAGER_CHECK(to == R::kDead || block.is_absent());
    policy_->remove(block);
  }
  if (!is_absent(from) && is_absent(to)) add_absent(block);
  if (from == R::kDropped) dropped_.erase(block.number);
  if (to == R::kDropped) dropped_.emplace(block.number, &block);
  const bool was_charged = is_charged(from);
  if (to == R::kDead && from != R::kOrphaned)
    ledger_.died(block.charged, was_charged);
  else if (was_charged && !is_charged(to))
    ledger_.page_out(block.charged);
  else if (!was_charged && is_charged(to))
    ledger_.page_in(block.charged);
  if (to != R::kResident) return;
  policy_->add(block);
  block.word.store(word, std::memory_order_release);
}

void BlockTable::add_absent(Block& block) {
  block.list_index = static_cast<std::uint32_t>(absent_.size());
  absent_.push_back(&block);
}

void BlockTable::remove_absent(Block& block) noexcept {
  Block* last = absent_.back();
  absent_[block.list_index] = last;
  last->list_index = block.list_index;
  absent_.pop_back();
}

}  // namespace tensorpager::pager
