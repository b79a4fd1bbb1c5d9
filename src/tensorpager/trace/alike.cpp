#include "tensorpager/trace/alike.h"

#include <algorithm>
#include <map>
#include <string>

namespace tensorpager::trace {
namespace {

/// Windows are not similar if a larger share of their ops is in only one of them. A forward pass and a training step
/// differ by half, a net of six layers and one of five by an eleventh.
constexpr double kMostDifferent = 0.2;

/// Ops by name: how many there are.
using Profile = std::map<std::string, std::size_t>;

Profile profile_of(const Trace& trace) {
  Profile profile;
  for (const Op& op : trace.ops) ++profile[op.name];
  return profile;
}

double difference(const Profile& one, const Profile& other) {
  std::size_t all = 0, common = 0;
  for (const auto& [name, times] : one) {
    const auto found = other.find(name);
    all += times;
    common += found != other.end() ? std::min(times, found->second) : 0;
  }
  for (const auto& [name, times] : other) all += times;
  return 1 - 2 * static_cast<double>(common) / static_cast<double>(all);
}

bool differs_in_sizes_only(const Trace& one, const Trace& other) {
  const auto same = [](const Op& a, const Op& b) {
    return a.name == b.name && a.reads == b.reads && a.writes == b.writes && a.births == b.births &&
           a.deaths == b.deaths && a.renews == b.renews;
  };
  return one.storages.size() == other.storages.size() && std::ranges::equal(one.ops, other.ops, same);
}

void raise_sizes(Trace& trace, const Trace& other) {
  for (std::size_t i = 0; i < trace.storages.size(); ++i)
    trace.storages[i].bytes = std::max(trace.storages[i].bytes, other.storages[i].bytes);
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    trace.ops[i].temporary = std::max(trace.ops[i].temporary, other.ops[i].temporary);
    trace.ops[i].moved = std::max(trace.ops[i].moved, other.ops[i].moved);
    trace.ops[i].flops = std::max(trace.ops[i].flops, other.ops[i].flops);
  }
}

}  // namespace

std::vector<WindowClass> join_alike(const std::vector<WindowClass>& classes, std::size_t least_ops) {
  struct Group {
    Profile profile;  // of the newest window
    WindowClass joined;
    std::size_t ops_that_came_again;
  };
  std::vector<const WindowClass*> newest_first;
  newest_first.reserve(classes.size());
  for (const WindowClass& one : classes) newest_first.push_back(&one);
  std::ranges::sort(newest_first, std::ranges::greater(),
                    [](const WindowClass* one) { return one->windows.back().end; });
  std::vector<Group> groups;
  for (const WindowClass* one : newest_first) {
    const Profile profile = profile_of(one->trace);
    const bool came_again = one->windows.size() > 1 && one->ops() >= least_ops;
    const std::size_t ops_that_came_again = came_again ? one->ops() : 0;
    const auto group = std::ranges::find_if(
        groups, [&](const Group& other) { return difference(profile, other.profile) <= kMostDifferent; });
    if (group == groups.end()) {
      groups.push_back({profile, *one, ops_that_came_again});
      continue;
    }
    WindowClass& joined = group->joined;
    joined.windows.insert(joined.windows.end(), one->windows.begin(), one->windows.end());
    group->ops_that_came_again += ops_that_came_again;
    if (differs_in_sizes_only(joined.trace, one->trace)) raise_sizes(joined.trace, one->trace);
  }
  std::vector<WindowClass> all;
  for (Group& group : groups) {
    WindowClass& joined = group.joined;
    if (joined.windows.size() < 2 || 2 * group.ops_that_came_again >= joined.ops()) continue;
    std::ranges::sort(joined.windows, {}, &Span::begin);
    all.push_back(std::move(joined));
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &WindowClass::ops);
  return all;
}

}  // namespace tensorpager::trace
