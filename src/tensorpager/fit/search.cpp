#include "tensorpager/fit/search.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <utility>

#include "tensorpager/plan/liveness.h"

namespace tensorpager::fit {
namespace {

using base::Bytes;

constexpr unsigned kGrid = 6;  // sizes between the largest unpaged and the largest at all that are tried first
constexpr double kResolution = 0.01;
constexpr std::size_t kQuick = 10;  // sizes are looked for with plans that are bettered for so small a part of the time

/// nullopt if there is no plan.
std::optional<Point> planned_at(std::uint64_t size, const Scaling& scaling, const machine::Machine& machine,
                                const planning::Planner& planner, Bytes budget, const planning::Options& options) {
  const trace::Trace trace = scaling.at(size);
  const plan::Liveness liveness(trace);
  std::optional<Cost> cost;
  if (liveness.floor() <= budget) cost = cost_of(trace, liveness, machine, budget, planner, options);
  if (!cost) return std::nullopt;
  return Point{.size = size, .need = liveness.need(), .floor = liveness.floor(), .cost = *cost};
}

class Search {
 public:
  Search(const Scaling& scaling, const machine::Machine& machine, const planning::Planner& planner,
         const Question& question, const Progress& progress)
      : scaling_(scaling), machine_(machine), planner_(planner), question_(question), progress_(progress) {}

  Found run() {
    Found found;
    const std::uint64_t near = scaling_.traces().back().size;
    const std::uint64_t unpaged =
        largest_size(near, question_.most_size, [&](std::uint64_t size) { return needs(size) <= question_.budget; });
    if (unpaged > 0) found.unpaged = at(unpaged);
    std::uint64_t largest = largest_size(
        near, question_.most_size, [&](std::uint64_t size) { return liveness_at(size).floor() <= question_.budget; });
    // What is above the floor has a plan, as a rule.
    while (largest > unpaged && plans_ < question_.most_plans / 2 && !at(largest))
      largest = unpaged + (largest - unpaged) * 15 / 16;
    if (largest > 0 && !at(largest)) largest = unpaged;
    try_between(std::max<std::uint64_t>(unpaged, 1), largest);
    narrow_overheads();
    plan_in_full(answers(largest));
    if (largest > 0) found.largest = points_.at(largest);
    for (const double overhead : question_.overheads) found.within.push_back(largest_known_within(overhead));
    found.quickest = quickest();
    for (const auto& [size, point] : points_)
      if (point) found.tried.push_back(*point);
    return found;
  }

 private:
  plan::Liveness liveness_at(std::uint64_t size) const { return plan::Liveness(scaling_.at(size)); }
  Bytes needs(std::uint64_t size) const { return liveness_at(size).need(); }
  bool is_paged(std::uint64_t size) const {
    const plan::Liveness liveness = liveness_at(size);
    return liveness.need() > question_.budget && liveness.floor() <= question_.budget;
  }

  /// nullopt if there is no plan.
  const std::optional<Point>& at(std::uint64_t size) {
    if (const auto known = points_.find(size); known != points_.end()) return known->second;
    if (is_paged(size)) {
      if (progress_) progress_(size, Effort::kQuick);
      ++plans_;
    }
    return points_[size] = planned_at(size, scaling_, machine_, planner_, question_.budget, options_of(Effort::kQuick));
  }

  planning::Options options_of(Effort effort) const {
    planning::Options options = question_.planning;
    if (effort == Effort::kFull) return options;
    options.techniques.annealing /= kQuick;
    options.techniques.replays_for_less = false;
    return options;
  }

  /// Several sizes at once, each planned by one thread.
  std::vector<std::optional<Point>> points_at(const std::vector<std::uint64_t>& sizes, Effort effort) const {
    planning::Options options = options_of(effort);
    const std::size_t at_once = std::max(1U, std::exchange(options.threads, 1));
    std::vector<std::optional<Point>> points;
    points.reserve(sizes.size());
    while (points.size() < sizes.size()) {
      std::vector<std::future<std::optional<Point>>> some;
      for (std::size_t i = points.size(); i < sizes.size() && some.size() < at_once; ++i) {
        if (progress_) progress_(sizes[i], effort);
        some.push_back(std::async(std::launch::async, [this, size = sizes[i], &options] {  //
          return planned_at(size, scaling_, machine_, planner_, question_.budget, options);
        }));
      }
      for (auto& one : some) points.push_back(one.get());
    }
    return points;
  }

  /// Sizes in equal proportions.
  void try_between(std::uint64_t from, std::uint64_t to) {
    std::vector<std::uint64_t> sizes;
    for (unsigned i = 1; i <= kGrid && to > from && plans_ + sizes.size() < question_.most_plans; ++i) {
      const double share = static_cast<double>(i) / (kGrid + 1);
      const auto size = static_cast<std::uint64_t>(
          std::round(static_cast<double>(from) * std::pow(static_cast<double>(to) / static_cast<double>(from), share)));
      if (!points_.contains(size) && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
    }
    plan(sizes);
  }

  /// Sizes that are paged, quickly.
  void plan(const std::vector<std::uint64_t>& sizes) {
    const auto points = points_at(sizes, Effort::kQuick);
    for (std::size_t i = 0; i < sizes.size(); ++i) points_[sizes[i]] = points[i];
    plans_ += static_cast<unsigned>(sizes.size());
  }

  /// Those that are paged.
  std::vector<std::uint64_t> answers(std::uint64_t largest) const {
    std::vector<std::uint64_t> sizes;
    const auto add = [&](const std::optional<Point>& point) {
      if (point && point->need > question_.budget && std::ranges::find(sizes, point->size) == sizes.end())
        sizes.push_back(point->size);
    };
    add(quickest());
    add(largest_known_within(question_.within));
    for (const double overhead : question_.overheads) add(largest_known_within(overhead));
    if (largest > 0) add(points_.at(largest));
    return sizes;
  }

  /// The plans that a run would have, where they are better.
  void plan_in_full(const std::vector<std::uint64_t>& sizes) {
    const auto points = points_at(sizes, Effort::kFull);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (points[i] && points[i]->cost.step < points_.at(sizes[i])->cost.step) points_.at(sizes[i]) = points[i];
  }

  std::optional<Point> largest_known_within(double overhead) const {
    std::optional<Point> best;
    for (const auto& [size, point] : points_)
      if (point && point->cost.overhead <= overhead) best = point;
    return best;
  }

  /// Halves the ranges in which the answers for the overheads are, all of them in turn, while plans are left for it.
  void narrow_overheads() {
    for (;;) {
      std::vector<std::uint64_t> sizes;
      for (const double overhead : question_.overheads) {
        const std::optional<std::uint64_t> size = next_for(overhead);
        const bool is_new = size && std::ranges::find(sizes, *size) == sizes.end();
        if (is_new && plans_ + sizes.size() < question_.most_plans) sizes.push_back(*size);
      }
      if (sizes.empty()) return;
      plan(sizes);
    }
  }

  /// Halfway from the largest known size within the overhead to the next one; nullopt if that is near enough.
  std::optional<std::uint64_t> next_for(double overhead) const {
    const std::optional<Point> best = largest_known_within(overhead);
    if (!best) return std::nullopt;
    const auto above = points_.upper_bound(best->size);
    if (above == points_.end()) return std::nullopt;
    const auto beyond = static_cast<double>(above->first);
    const std::uint64_t range = above->first - best->size;
    if (static_cast<double>(range) <= std::max(1.0, kResolution * beyond)) return std::nullopt;
    return best->size + range / 2;
  }

  std::optional<Point> quickest() const {
    std::optional<Point> best;
    for (const auto& [size, point] : points_)
      if (point && point->cost.overhead <= question_.within && (!best || point->per_second() > best->per_second()))
        best = point;
    return best;
  }

  const Scaling& scaling_;
  const machine::Machine& machine_;
  const planning::Planner& planner_;
  const Question& question_;
  const Progress& progress_;
  std::map<std::uint64_t, std::optional<Point>> points_;
  unsigned plans_ = 0;
};

}  // namespace

std::uint64_t largest_size(std::uint64_t near, std::uint64_t most,
                           const std::function<bool(std::uint64_t size)>& allows) {
  std::uint64_t yes = 0, no = std::clamp<std::uint64_t>(near, 1, most);
  while (no <= most && allows(no)) {
    yes = no;
    no = no == most ? most + 1 : std::min(no * 2, most);
  }
  while (no - yes > 1) {
    const std::uint64_t middle = yes + (no - yes) / 2;
    (allows(middle) ? yes : no) = middle;
  }
  return yes;
}

std::optional<Point> point_at(std::uint64_t size, const Scaling& scaling, const machine::Machine& machine,
                              const planning::Planner& planner, const Question& question) {
  return planned_at(size, scaling, machine, planner, question.budget, question.planning);
}

void Found::add_quickest(const Point& point) {
  quickest = point;
  const auto at = std::ranges::lower_bound(tried, point.size, {}, &Point::size);
  if (at == tried.end() || at->size != point.size) tried.insert(at, point);
}

std::vector<Point> near_quickest(const Found& found, double within, std::size_t most) {
  constexpr double kNear = 0.75;  // of the most samples a second
  std::vector<Point> near;
  for (const Point& point : found.tried)
    if (point.cost.overhead <= within && point.per_second() >= kNear * found.quickest->per_second())
      near.push_back(point);
  if (near.size() <= most) return near;
  std::vector<Point> some;
  some.reserve(most);
  for (std::size_t i = 0; i < most; ++i) some.push_back(near[i * (near.size() - 1) / (most - 1)]);
  if (const auto unpaged = found.unpaged ? std::ranges::find(near, found.unpaged->size, &Point::size) : near.end();
      unpaged != near.end()) {
    const auto distance = [&](const Point& point) {
      return std::max(point.size, unpaged->size) - std::min(point.size, unpaged->size);
    };
    *std::ranges::min_element(some, {}, distance) = *unpaged;
  }
  return some;
}

Found search(const Scaling& scaling, const machine::Machine& machine, const planning::Planner& planner,
             const Question& question, const Progress& progress) {
  return Search(scaling, machine, planner, question, progress).run();
}

}  // namespace tensorpager::fit
