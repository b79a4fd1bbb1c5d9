// An action source that says what a test tells it to.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorpager/pager/action_source.h"

namespace tensorpager::pager {

using Kind = Action::Kind;

class Script final : public ActionSource {
 public:
  bool begin_op(const base::OpSignature&, std::span<Block* const>, std::vector<Action>& actions) override {
    actions = std::exchange(at_begin, {});
    return expects;
  }
  /// What is planned is asked for at the end, and a test changes it after the op.
  bool ends_window() const override { return !ends_late && (!at_end.empty() || at_end_first || planned); }
  void end_op(std::vector<Action>& actions) override {
    ++ended;
    if (at_end_first) std::exchange(at_end_first, nullptr)();
    actions = std::exchange(at_end, {});
  }
  std::optional<DueReplay> due_replay(const base::OpSignature&) const override { return due; }
  std::uint64_t replayed_later() const override { return 0; }
  void taken_over(Block&, Block&) override {}
  void created(Block&) override {}
  void died(Block&) noexcept override {
    if (at_death) at_death();
  }
  std::optional<std::uint64_t> place_of_birth(base::Bytes, base::Bytes) override { return std::nullopt; }
  void places_of_births(PlacesOfBirths& places) const override {
    ++births_asked;
    for (const PlannedPlace& place : births) places.push_back(place);
  }
  std::optional<std::uint64_t> place_of(const Block&) const override { return std::nullopt; }
  base::Bytes planned_space() const override { return {}; }
  std::optional<std::uint64_t> next_use(const Block& block) const override {
    const auto known = next_uses.find(&block);
    return known != next_uses.end() ? std::optional(known->second) : std::nullopt;
  }
  std::optional<base::Bytes> planned_at_begin() const override { return planned; }
  std::optional<base::Bytes> planned_at_end() const override { return planned; }
  std::uint32_t followed_window() const override { return 0; }
  std::uint64_t followed_ops() const override { return 0; }
  std::uint64_t resized_ops() const override { return 0; }
  std::uint64_t misses() const override { return 0; }

  std::optional<DueReplay> due;
  std::vector<Action> at_begin, at_end;  // of the next op
  int ended = 0;                         // ops
  bool expects = true;                   // the next op
  bool ends_late = false;                // also an op at whose end something is to be done
  std::function<void()> at_end_first;    // with the pager's lock held
  std::function<void()> at_death;        // likewise
  std::optional<base::Bytes> planned;
  std::unordered_map<const Block*, std::uint64_t> next_uses;
  std::vector<PlannedPlace> births;  // of each op
  mutable int births_asked = 0;      // times
};

}  // namespace tensorpager::pager
