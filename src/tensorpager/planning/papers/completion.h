// Plans from the decisions of other systems. What leaves the device, and which rule says when it comes back, is a
// planner's own; where blocks lie, what waits for what, and how long it takes follows from that, here and in the same
// way for all. So the rules are compared, and not the allocators and frameworks that they were published with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/planning/attempt.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {

/// A storage leaves after this op, which uses it, and comes back before the next one that does.
struct Absence {
  StorageId storage;
  std::uint32_t after;
};

/// When a page-in is submitted.
enum class PageIns : std::uint8_t {
  kAsLateAsTheyOverlap,  // so that the link is done in time
  kOneAhead,             // when the op begins that needs the page-in before it
};

/// Which page-outs compute waits for, besides those whose room it needs.
enum class PageOuts : std::uint8_t {
  kOverlap,  // none
  kInStep,   // all; each once the next op that a storage leaves after has run
};

struct Decisions {
  std::vector<Absence> absences = {};  // ops are of the window without replays
  std::vector<Replay> replays = {};
  PageIns page_ins = PageIns::kAsLateAsTheyOverlap;
  PageOuts page_outs = PageOuts::kOverlap;

  /// Pages a feature map out between the forward and the backward pass.
  void page_out(const FeatureMap& map) { absences.push_back({.storage = map.storage, .after = map.last_forward}); }
};

/// A window with decisions made, of which all else follows.
class Completion {
 public:
  /// Throws InvalidArgument if a replay is not possible, or if the op of an absence does not use its storage.
  Completion(const Problem& problem, const Decisions& decisions);
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// By how much the decisions exceed the space, where they do so most; nullopt if they fit.
  const std::optional<Infeasible>& excess() const { return excess_; }
  /// As Candidate::step, were all of the space one range of bytes; only if the decisions fit.
  Nanoseconds step_by_bytes() const;
  /// Returns by how much the space is exceeded, by bytes or by what packing needs.
  base::Result<Plan, Infeasible> plan(const std::string& planner) const;

 private:
  Infeasible exceeding(std::uint64_t bytes, std::uint32_t op) const;
  Evictions evictions() const;
  std::uint32_t ops() const { return groundwork_.liveness.ops(); }
  std::optional<Infeasible> find_excess() const;
  void schedule();
  void wait_in_step(std::vector<Row>& rows) const;

  plan::Rewriting rewriting_;  // with the replays
  Problem problem_;            // of the rewritten trace
  Groundwork groundwork_;
  base::Bytes reserve_;            // as far as there is room
  std::vector<Absence> absences_;  // of it
  std::vector<Replay> replays_;
  PageIns page_ins_;
  PageOuts page_outs_;
  std::optional<Attempt> attempt_;  // none below the floor
  std::vector<Interval> intervals_;
  std::optional<Infeasible> excess_;
};

/// Several attempts at a plan: the quickest, or else why the first failed.
class Quickest {
 public:
  void offer(base::Result<Plan, Infeasible> found);
  const Plan* plan() const { return found_ && *found_ ? &found_->value() : nullptr; }
  /// After an offer.
  base::Result<Plan, Infeasible> take() { return std::move(found_.value()); }

 private:
  std::optional<base::Result<Plan, Infeasible>> found_;
};

/// Plans with the first of `rules` (0, 1, 2, ... `most`) whose decisions fit, where each leaves less on the device than
/// the one before. Where packing needs more than the bytes or makes the plan slower, later ones are tried, too.
base::Result<Plan, Infeasible> plan_with_first(const Problem& problem, const std::string& planner, std::size_t most,
                                               const std::function<Decisions(std::size_t)>& rules);

/// Plans with what `rule` decides for the budget, or for less where replays and packing need more than the rule counts
/// on. The rule is given bytes of the budget.
base::Result<Plan, Infeasible> plan_for_less(const Problem& problem, const std::string& planner,
                                             const std::function<Decisions(std::uint64_t)>& rule);

}  // namespace tensorpager::planning
