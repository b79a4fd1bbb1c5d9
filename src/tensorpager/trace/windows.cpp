#include "tensorpager/trace/windows.h"

#include <algorithm>
#include <unordered_map>

#include "tensorpager/base/config.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::trace {
namespace {

/// More times would not improve a median.
constexpr std::size_t kMostTimes = 9;

/// Windows whose storages differ by less count as equal in size.
constexpr base::Bytes kSameBytes = base::kMinPagedBytes;

/// The parts of a trace that define its class.
std::string class_key(Trace trace) {
  trace.slab = {};
  for (Op& op : trace.ops) op.time = {}, op.temporary = {};
  return write_trace(trace);
}

std::chrono::nanoseconds median(std::vector<std::chrono::nanoseconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// Slabs only grow: the last window of a class may not have had those that the next step needs.
void sum_up(WindowClass& one, const Stream& stream) {
  one.trace.slab = std::max(one.trace.slab, stream.ops.back().slab);
  for (std::size_t i = 0; i < one.trace.ops.size(); ++i) {
    Op& op = one.trace.ops[i];
    std::vector<std::chrono::nanoseconds> times;
    for (auto window = one.windows.rbegin(); window != one.windows.rend(); ++window) {
      const StreamOp& seen = stream.ops[window->begin + i];
      op.temporary = std::max(op.temporary, seen.temporary);
      if (times.size() < kMostTimes) times.push_back(seen.time);
    }
    op.time = median(std::move(times));
  }
}

}  // namespace

std::vector<WindowClass> classify_windows(const Stream& stream) {
  std::vector<WindowClass> classes;
  std::unordered_map<std::string, std::size_t> places;
  for (const Span& window : find_windows(stream)) {
    std::optional<Trace> trace = window_trace(stream, window);
    if (!trace) continue;
    const auto [place, is_new] = places.try_emplace(class_key(*trace), classes.size());
    if (is_new) classes.emplace_back();
    WindowClass& one = classes[place->second];
    one.trace = std::move(*trace);
    one.windows.push_back(window);
  }
  for (WindowClass& one : classes) sum_up(one, stream);
  std::ranges::stable_sort(classes, std::ranges::greater(), &WindowClass::ops);
  return classes;
}

std::optional<std::size_t> find_step(const std::vector<WindowClass>& classes, const Stream& stream) {
  struct Rank {
    bool optimizer, backward, repeats;
    std::size_t ops;
    std::uint64_t bytes;  // of all storages, rounded: among nearly equal sizes the later window ranks higher
    std::size_t begin;

    auto operator<=>(const Rank&) const = default;
  };
  const auto rank = [&](const WindowClass& one) {
    Rank found{.optimizer = false,
               .backward = false,
               .repeats = one.windows.size() > 1,
               .ops = one.ops(),
               .bytes = 0,
               .begin = one.windows.back().begin};
    for (std::size_t i = one.windows.back().begin; i < one.windows.back().end; ++i) {
      found.optimizer |= stream.ops[i].optimizer_step != 0;
      found.backward |= stream.ops[i].facts.backward;
    }
    base::Bytes bytes;
    for (const Storage& storage : one.trace.storages) bytes += storage.bytes;
    found.bytes = bytes.count() / kSameBytes.count();
    return found;
  };
  std::optional<std::size_t> best;
  Rank most{};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const Rank now = rank(classes[i]);
    if (!now.optimizer && !now.backward) continue;
    if (best && now <= most) continue;
    best = i;
    most = now;
  }
  return best;
}

}  // namespace tensorpager::trace
