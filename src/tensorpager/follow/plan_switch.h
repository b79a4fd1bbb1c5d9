// Follows the plans of several classes of windows: training step, evaluation batch, the last batch that is shorter.
//
// The class of a window becomes clear op by op. It is assumed to be the one that is likely after the last windows
// (WindowHistory); once its ops differ, it is of another class that begins in the same way. If one class is the
// beginning of another, what comes next tells them apart: a micro-step, or the last one with the optimizer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tensorpager/follow/plan_cursor.h"
#include "tensorpager/follow/unplanned_blocks.h"
#include "tensorpager/follow/window_history.h"

namespace tensorpager::follow {

class PlanSwitch final : public ActionSource {
 public:
  /// At least one agenda.
  explicit PlanSwitch(const std::vector<std::shared_ptr<const follow::Agenda>>& agendas);

  /// Cursors are in the order of the agendas.
  PlanCursor& cursor(std::size_t i) { return *cursors_[i]; }
  /// Nothing that was reported before is counted, and no transfer is in flight.
  void begin_here();
  /// Notes that the last window was of this class.
  void start_after(std::size_t i);

  bool begin_op(const base::OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) override;
  bool ends_window() const override { return cursors_[active_]->ends_window(); }
  void end_op(std::vector<Action>& actions) override;
  std::optional<DueReplay> due_replay(const base::OpSignature& next) const override;
  std::uint64_t replayed_later() const override;
  void taken_over(Block& block, Block& fresh) override { active().taken_over(block, fresh); }
  void created(Block& block) override;
  void died(Block& block) noexcept override;
  std::optional<std::uint64_t> place_of_birth(base::Bytes size, base::Bytes charged) override {
    return active().place_of_birth(size, charged);
  }
  void places_of_births(PlacesOfBirths& places) const override { cursors_[active_]->places_of_births(places); }
  std::optional<std::uint64_t> place_of(const Block& block) const override {
    return cursors_[active_]->place_of(block);
  }
  base::Bytes planned_space() const override;
  std::optional<std::uint64_t> next_use(const Block& block) const override {
    return cursors_[active_]->next_use(block);
  }
  std::optional<base::Bytes> planned_at_begin() const override { return cursors_[active_]->planned_at_begin(); }
  std::optional<base::Bytes> planned_at_end() const override { return cursors_[active_]->planned_at_end(); }
  std::uint32_t followed_window() const override { return cursors_[active_]->followed_window(); }
  std::uint64_t followed_ops() const override;
  std::uint64_t resized_ops() const override;
  std::uint64_t misses() const override;

  std::size_t active_class() const { return active_; }

 private:
  static constexpr int kOpBits = 32;

  PlanCursor& active() { return *cursors_[active_]; }
  const PlanCursor& active() const { return *cursors_[active_]; }
  std::uint64_t of_active(std::uint64_t op) const;
  void turn_to_another(const base::OpSignature& op, std::vector<Action>& actions);
  std::optional<std::size_t> find_other(const base::OpSignature& op) const;
  std::optional<std::size_t> find_longer(const base::OpSignature& op) const;
  std::optional<std::size_t> find_shorter() const;
  std::optional<std::size_t> find_expecting(const base::OpSignature& op) const;
  std::optional<std::size_t> find_beginning(const base::OpSignature& op) const;
  std::uint64_t windows() const;
  bool is_known(const Block& block) const;
  void change_to(std::size_t other, std::uint32_t position, std::vector<Action>& actions);

  std::vector<std::unique_ptr<PlanCursor>> cursors_;
  std::vector<std::vector<std::uint32_t>> alike_;  // by two classes: how many first ops are the same
  WindowHistory history_;
  UnplannedBlocks unplanned_;           // unplanned blocks: made between ops, or replaced
  std::uint64_t windows_at_leave_ = 0;  // when unplanned blocks left last
  std::size_t active_ = 0;
  std::optional<base::OpSignature> before_;  // the op before
};

}  // namespace tensorpager::follow
