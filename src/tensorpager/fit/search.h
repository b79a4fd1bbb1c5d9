// Looks for the sizes of an argument of a program, such as the batch, that a budget allows: the largest without paging,
// the largest at given overheads, the largest at all, and the one with the most samples a second.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tensorpager/fit/budgets.h"
#include "tensorpager/fit/scaling.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::fit {

struct Question {
  base::Bytes budget;
  std::vector<double> overheads = {0.03, 0.1, 0.25, 0.5};  // over the step's compute, ascending
  double within = 0.1;                                     // the overhead that the size with the most samples may have
  std::uint64_t most_size = std::uint64_t{1} << 40;        // larger ones make no sense to the program
  unsigned most_plans = 24;                                // that sizes are looked for with
  planning::Options planning = {};
};

/// A size under the budget. Without paging `cost` has no overhead and moves nothing.
struct Point {
  std::uint64_t size = 0;
  base::Bytes need, floor;
  Cost cost;
  /// Of the argument's size: samples, if it is the batch.
  double per_second() const { return static_cast<double>(size) / std::chrono::duration<double>(cost.step).count(); }
};

enum class Effort : std::uint8_t { kQuick, kFull };  // of a planner
using Progress = std::function<void(std::uint64_t size, Effort effort)>;

struct Found {
  std::optional<Point> unpaged;              // nullopt: not even size 1
  std::vector<std::optional<Point>> within;  // by Question::overheads; nullopt if none is within
  std::optional<Point> largest;              // at any cost; nullopt if not even size 1 has a plan
  std::optional<Point> quickest;             // the most per second within Question::within
  std::vector<Point> tried;                  // by size

  /// What is measured may be another than what is simulated.
  void add_quickest(const Point& point);
};

/// Sizes for which overheads are asked are exact to a hundredth if plans are left for it, the others exact, as far as
/// needs, floors and overheads grow with the size. They are looked for with quick plans; those that are answered with
/// are planned in full. As many sizes are planned at once as `planning.threads`. `progress` is called before each plan
/// with its size.
Found search(const Scaling& scaling, const machine::Machine& machine, const planning::Planner& planner,
             const Question& question, const Progress& progress = {});

/// Planned in full; nullopt if there is no plan. `question` gives the budget and what to plan with.
std::optional<Point> point_at(std::uint64_t size, const Scaling& scaling, const machine::Machine& machine,
                              const planning::Planner& planner, const Question& question);

/// At most so many of the sizes that were tried, at least two, whose overhead is within what is allowed and which may
/// be the quickest, as simulated steps are up to a fifth off: evenly spread by their number, by size, and among them
/// the largest without paging if it may be the quickest. `found` has a quickest.
std::vector<Point> near_quickest(const Found& found, double within, std::size_t most);

/// The largest size up to `most` that `allows` says yes to, if it says yes up to that one and no beyond; 0 if not even
/// 1. Sizes near `near` are tried first.
std::uint64_t largest_size(std::uint64_t near, std::uint64_t most,
                           const std::function<bool(std::uint64_t size)>& allows);

}  // namespace tensorpager::fit
