#include "tensorpager/trace/windows.h"

#include <algorithm>
#include <unordered_map>

#include "tensorpager/trace/trace_io.h"

namespace tensorpager::trace {
namespace {

/// Medians of more would not be better.
constexpr std::size_t kMostTimes = 9;

/// All of a trace that makes its class.
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

void sum_up(WindowClass& one, const Stream& stream) {
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

}  // namespace tensorpager::trace
