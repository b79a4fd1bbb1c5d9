#include "tensorpager/trace/boundaries.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace tensorpager::trace {
namespace {

using Positions = std::vector<std::size_t>;  // ascending; position p lies before op p

/// Without a backward pass, a stretch below this share of a step's ops is no window. A forward pass is about a third.
constexpr std::size_t kLeastShare = 5;
/// A stretch that writes older storages in at least this share of its ops updates them.
constexpr std::size_t kUpdateShare = 4;
constexpr int kMostLevels = 8;  // of nested searches

/// A hash of the set of live storages: a sum over them, equal for equal sets.
struct LiveSet {
  std::uint64_t sum = 0;
  std::uint64_t bytes = 0;

  void add(std::uint64_t token, std::uint64_t size) { sum += token, bytes += size; }
  void remove(std::uint64_t token, std::uint64_t size) { sum -= token, bytes -= size; }
};

std::uint64_t token_of(const StreamStorage& storage) {
  std::uint64_t token = std::hash<std::string_view>()(storage.maker) + (storage.from_backward ? 1 : 0);
  token = (token ^ (token >> 31)) * 0x9E3779B97F4A7C15;
  return token ^ (token >> 29);
}

class Finder {
 public:
  explicit Finder(const Stream& stream) : stream_(stream) {
    find_engine_runs();
    follow_live_sets();
    count_ops();
    count_steps();
    find_updates();
  }

  std::vector<Span> find() {
    std::vector<Span> windows;
    find_in(0, stream_.ops.size(), kMostLevels, windows);
    std::ranges::sort(windows, {}, &Span::begin);
    return windows;
  }

 private:
  const StreamOp& op(std::size_t i) const { return stream_.ops[i]; }

  /// Optimizers may step in the engine's hooks, where not all that they do is an op of the engine. Others call the
  /// program's closure, which runs the engine, as LBFGS does.
  void find_engine_runs() {
    for (const StreamOp& one : stream_.ops) {
      if (one.facts.backward && one.optimizer_step != 0) with_backward_.insert(one.optimizer_step);
    }
    std::unordered_set<std::uint32_t> in_hooks;  // optimizers' steps
    in_engine_.resize(stream_.ops.size());
    for (std::size_t i = 0; i < stream_.ops.size(); ++i) {
      const std::uint32_t step = op(i).optimizer_step;
      const bool begins = i > 0 && op(i - 1).optimizer_step != step;
      if (begins && in_engine_[i - 1] && with_backward_.contains(step)) in_hooks.insert(step);
      in_engine_[i] = op(i).facts.backward || in_hooks.contains(step);
    }
    steps_in_engine_ = !in_hooks.empty();
  }

  void follow_live_sets() {
    LiveSet all, kept;
    const auto change = [&](std::size_t i, auto apply) {
      const StreamStorage& storage = stream_.storages[i];
      apply(all, token_of(storage), storage.bytes.count());
      if (!storage.from_backward) apply(kept, token_of(storage), storage.bytes.count());
    };
    const auto born = [](LiveSet& set, std::uint64_t token, std::uint64_t bytes) { set.add(token, bytes); };
    const auto died = [](LiveSet& set, std::uint64_t token, std::uint64_t bytes) { set.remove(token, bytes); };
    for (std::size_t i = 0; i < stream_.storages.size(); ++i) {
      if (stream_.storages[i].born == StreamStorage::kBefore) change(i, born);
    }
    all_.push_back(all), kept_.push_back(kept);
    for (const StreamOp& one : stream_.ops) {
      for (const std::size_t i : one.births) change(i, born);
      for (const std::size_t i : one.deaths) change(i, died);
      all_.push_back(all), kept_.push_back(kept);
    }
  }

  void count_ops() {
    work_.push_back(0), backward_.push_back(0);
    for (const StreamOp& one : stream_.ops) {
      work_.push_back(work_.back() + (one.optimizer_step == 0 ? 1 : 0));
      backward_.push_back(backward_.back() + (one.facts.backward ? 1 : 0));
    }
  }

  /// Finds where an optimizer steps before the autograd engine runs again: ops there belong to its step.
  void find_updates() {
    before_optimizer_.resize(stream_.ops.size() + 1);
    for (std::size_t i = stream_.ops.size(); i-- > 0;) {
      const bool updates = op(i).optimizer_step != 0 && !with_backward_.contains(op(i).optimizer_step);
      before_optimizer_[i] = updates || (!op(i).facts.backward && before_optimizer_[i + 1]);
    }
  }

  /// Counts the steps that are complete at each position.
  void count_steps() {
    const std::size_t ops = stream_.ops.size();
    const bool marked = ops > 0 && op(ops - 1).steps_before > op(0).steps_before;
    const bool optimized =
        std::ranges::any_of(stream_.ops, [](const StreamOp& one) { return one.optimizer_step != 0; });
    steps_.push_back(0);
    for (std::size_t i = 0; i < ops; ++i) {
      const bool last = i + 1 == ops;
      bool ends = false;
      if (marked)
        ends = !last && op(i + 1).steps_before != op(i).steps_before;
      else if (optimized)
        ends = op(i).optimizer_step != 0 && (last || op(i + 1).optimizer_step != op(i).optimizer_step);
      else
        ends = op(i).facts.backward && (last || !op(i + 1).facts.backward);
      steps_.push_back(steps_.back() + (ends ? 1 : 0));
    }
  }

  bool may_be_boundary(std::size_t at) const {
    if (at == 0 || at == stream_.ops.size()) return true;
    const StreamOp& before = op(at - 1);
    const StreamOp& after = op(at);
    return !(in_engine_[at - 1] && in_engine_[at]) &&
           (before.optimizer_step == 0 || before.optimizer_step != after.optimizer_step);
  }

  std::size_t steps(std::size_t begin, std::size_t end) const { return steps_[end] - steps_[begin]; }
  std::size_t work(std::size_t begin, std::size_t end) const { return work_[end] - work_[begin]; }
  bool has_backward(std::size_t begin, std::size_t end) const { return backward_[end] > backward_[begin]; }

  bool is_update(std::size_t begin, std::size_t end) const {
    std::size_t updates = 0;
    for (std::size_t i = begin; i < end; ++i) {
      updates += std::ranges::any_of(op(i).touched, [&](const StreamTouch& touch) {
        const std::size_t born = stream_.storages[touch.storage].born;
        return touch.written && (born == StreamStorage::kBefore || born < begin);
      });
    }
    return updates > 0 && updates * kUpdateShare >= end - begin;
  }

  /// Whether the stretch between two returns to the boundary's set is long enough for a window, if a step has `step`
  /// ops.
  bool is_substantial(std::size_t begin, std::size_t end, std::size_t step) const {
    if (has_backward(begin, end)) return true;
    return !before_optimizer_[begin] && work(begin, end) * kLeastShare >= step && !is_update(begin, end);
  }

  std::map<std::uint64_t, Positions> returns_in(std::size_t begin, std::size_t end) const {
    std::map<std::uint64_t, Positions> returns;
    for (std::size_t at = begin; at <= end; ++at) {
      if (may_be_boundary(at)) returns[kept_[at].sum].push_back(at);
    }
    std::erase_if(returns, [](const auto& group) { return group.second.size() < 3; });
    return returns;
  }

  template <typename Counts>
  static std::size_t count_stretches(const Positions& positions, Counts&& counts) {
    std::size_t count = 0;
    for (std::size_t i = 1; i < positions.size(); ++i) count += counts(positions[i - 1], positions[i]) ? 1 : 0;
    return count;
  }

  /// Where the set with the fewest bytes returns, of those that return at nearly every step; empty if none does.
  Positions choose(const std::map<std::uint64_t, Positions>& returns, std::size_t begin, std::size_t end) const {
    const bool has_steps = steps_.back() > 0;
    const auto counts = [&](std::size_t p, std::size_t q) { return has_steps ? steps(p, q) > 0 : q - p > 1; };
    std::size_t most = 0;
    for (const auto& [sum, positions] : returns) most = std::max(most, count_stretches(positions, counts));
    const Positions* best = nullptr;
    for (const auto& [sum, positions] : returns) {
      const std::size_t count = count_stretches(positions, counts);
      // Where the engine's runs end steps, a dry run may end within a forward pass: sets in it return once more.
      const bool recurs = has_steps ? 5 * count >= 4 * most || (steps_in_engine_ && count + 1 == most)
                                    : 2 * (positions.back() - positions.front()) >= end - begin;
      if (count < 2 || !recurs) continue;
      const auto rank = [&](const Positions& one) { return std::pair(kept_[one.front()].bytes, one.front()); };
      if (best == nullptr || rank(positions) < rank(*best)) best = &positions;
    }
    return best != nullptr ? *best : Positions();
  }

  /// The number of ops of a step, without the optimizer's.
  std::size_t step_work(const Positions& positions) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 1; i < positions.size(); ++i) {
      if (has_backward(positions[i - 1], positions[i])) all.push_back(work(positions[i - 1], positions[i]));
    }
    if (!all.empty()) {
      std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
      return all[all.size() / 2];
    }
    std::size_t longest = 1;
    for (std::size_t i = 1; i < positions.size(); ++i)
      longest = std::max(longest, work(positions[i - 1], positions[i]));
    return longest;
  }

  /// Of each run of positions without anything substantial between them, the first after the last update at which the
  /// live storages, gradients included, are those of most runs; of several such sets, the one with the fewest bytes.
  Positions boundaries_at(const Positions& positions, std::size_t step) const {
    std::vector<Positions> runs(1, {positions.front()});
    for (std::size_t i = 1; i < positions.size(); ++i) {
      if (is_substantial(positions[i - 1], positions[i], step)) runs.emplace_back();
      runs.back().push_back(positions[i]);
    }
    struct Place {
      std::size_t runs = 0;
      std::size_t last_run = 0;
      std::uint64_t bytes = 0;
    };
    std::map<std::uint64_t, Place> places;
    std::size_t most = 0;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      for (const std::size_t at : runs[run]) {
        Place& place = places[all_[at].sum];
        if (place.runs == 0 || place.last_run != run) ++place.runs;
        place.last_run = run;
        place.bytes = all_[at].bytes;
        most = std::max(most, place.runs);
      }
    }
    const Place* best = nullptr;
    std::uint64_t sum = 0;
    for (const auto& [candidate, place] : places) {
      if (place.runs + 1 < most || (best != nullptr && place.bytes >= best->bytes)) continue;
      best = &place, sum = candidate;
    }
    Positions boundaries;
    const auto is_there = [&](std::size_t at) { return all_[at].sum == sum; };
    for (const Positions& run : runs) {
      auto updated = run.begin();
      for (auto at = run.begin() + 1; at < run.end(); ++at) {
        if (steps(at[-1], at[0]) > 0 || is_update(at[-1], at[0])) updated = at;
      }
      const auto after = std::find_if(updated, run.end(), is_there);
      const auto before = std::find_if(std::make_reverse_iterator(updated), run.rend(), is_there);
      if (after != run.end())
        boundaries.push_back(*after);
      else if (before != run.rend())
        boundaries.push_back(*before);
    }
    return boundaries;
  }

  /// The median number of steps between two boundaries, at least 1.
  std::size_t usual_steps(const Positions& boundaries) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 1; i < boundaries.size(); ++i) all.push_back(steps(boundaries[i - 1], boundaries[i]));
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    return std::max<std::size_t>(all[all.size() / 2], 1);
  }

  void find_in(std::size_t begin, std::size_t end, int levels, std::vector<Span>& windows) const {
    if (levels == 0 || end - begin < 2) return;
    const Positions positions = choose(returns_in(begin, end), begin, end);
    if (positions.empty()) return;
    const std::size_t step = step_work(positions);
    const Positions boundaries = boundaries_at(positions, step);
    if (boundaries.size() < 2) return;
    const std::size_t usual = usual_steps(boundaries);
    for (std::size_t i = 1; i < boundaries.size(); ++i) {
      const Span window{boundaries[i - 1], boundaries[i]};
      const bool may_repeat = !has_backward(window.begin, window.end) && work(window.begin, window.end) > step;
      if (may_repeat && take_apart(window, step, windows)) continue;
      // A window with so many steps is another phase of the program, with windows of its own.
      const std::size_t before = windows.size();
      if (steps(window.begin, window.end) >= 3 * usual) find_in(window.begin + 1, window.end - 1, levels - 1, windows);
      if (windows.size() == before) windows.push_back(window);
    }
    // Before the first boundary and after the last the program may repeat something else.
    if (boundaries.front() > begin) find_in(begin, boundaries.front(), levels - 1, windows);
    if (boundaries.back() < end) find_in(boundaries.back(), end, levels - 1, windows);
  }

  /// Splits a stretch without a backward pass that repeats the same ops. Returns false if it does not repeat.
  bool take_apart(const Span& stretch, std::size_t step, std::vector<Span>& windows) const {
    const auto counts = [&](std::size_t p, std::size_t q) { return is_substantial(p, q, step); };
    const Positions* best = nullptr;
    std::size_t most = 1;
    const auto returns = returns_in(stretch.begin, stretch.end);
    for (const auto& [sum, positions] : returns) {
      const std::size_t count = count_stretches(positions, counts);
      const bool is_lower =
          best != nullptr && count == most && kept_[positions.front()].bytes < kept_[best->front()].bytes;
      if (count > most || is_lower) best = &positions, most = count;
    }
    if (best == nullptr) return false;
    const Positions boundaries = boundaries_at(*best, step);
    for (std::size_t i = 1; i < boundaries.size(); ++i) windows.push_back({boundaries[i - 1], boundaries[i]});
    return boundaries.size() > 1;
  }

  const Stream& stream_;
  std::vector<LiveSet> all_;                          // by position
  std::vector<LiveSet> kept_;                         // the same without gradients
  std::vector<std::size_t> work_, backward_, steps_;  // by position: counts of what precedes it
  std::unordered_set<std::uint32_t> with_backward_;   // optimizers' steps that run the engine, or are run by it
  bool steps_in_engine_ = false;                      // optimizers step in hooks of the engine
  std::vector<bool> in_engine_;                       // by op
  std::vector<bool> before_optimizer_;                // by position
};

}  // namespace

std::vector<Span> find_windows(const Stream& stream) {
  return stream.ops.empty() ? std::vector<Span>() : Finder(stream).find();
}

}  // namespace tensorpager::trace
