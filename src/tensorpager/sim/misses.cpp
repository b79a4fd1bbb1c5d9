#include "tensorpager/sim/misses.h"

#include <algorithm>

namespace tensorpager::sim {
namespace {

using trace::StorageId;

bool touches_entries(const trace::Trace& trace, const trace::Op& op) {
  const auto is_entry = [&](StorageId id) { return trace.storages[trace::index(id)].entry; };
  return std::ranges::any_of(op.births, is_entry) || std::ranges::any_of(op.deaths, is_entry);
}

}  // namespace

std::vector<Step> steps_of(const trace::Trace& trace) {
  std::vector<Step> steps;
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) steps.push_back({.op = op});
  return steps;
}

std::vector<Step> with_misses(const trace::Trace& trace, double share, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::vector<StorageId> alive;
  for (std::uint32_t i = 0; i < trace.storages.size(); ++i) {
    if (trace.storages[i].entry) alive.push_back(StorageId{i});
  }
  std::vector<Step> steps;
  for (std::uint32_t number = 0; number < trace.ops.size(); ++number) {
    const trace::Op& op = trace.ops[number];
    Step step{.op = number};
    if (static_cast<double>(below(100'000)) < share * 100'000) {
      const std::size_t kind = below(3);
      if (kind == 0 && !alive.empty()) {
        Step extra{.op = number, .inserted = true};
        extra.reads = {alive[below(alive.size())], alive[below(alive.size())]};
        if (below(4) == 0) extra.writes = {extra.reads.front()};
        extra.made = trace.storages[trace::index(extra.reads.back())].bytes;
        extra.life = static_cast<std::uint32_t>(1 + below(50));
        steps.push_back(std::move(extra));
      } else if (kind == 1) {
        step.left_out = !touches_entries(trace, op);
      } else {
        step.grown = !op.births.empty() && !touches_entries(trace, op);
      }
    }
    steps.push_back(std::move(step));
    alive.insert(alive.end(), op.births.begin(), op.births.end());
    for (const StorageId id : op.deaths) std::erase(alive, id);
  }
  return steps;
}

}  // namespace tensorpager::sim
