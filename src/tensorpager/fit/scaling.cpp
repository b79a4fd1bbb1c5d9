#include "tensorpager/fit/scaling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::fit {
namespace {

using base::Bytes;
using trace::Op;
using trace::Trace;

bool do_the_same(const Op& a, const Op& b) {
  return a.name == b.name && a.reads == b.reads && a.writes == b.writes && a.births == b.births &&
         a.deaths == b.deaths && a.renews == b.renews && a.precision == b.precision && a.purity == b.purity;
}

std::string number_of(const char* what, std::size_t a, std::size_t b) {
  return std::to_string(a) + " and " + std::to_string(b) + " " + what;
}

long double distance(std::uint64_t from, std::uint64_t to) {
  return static_cast<long double>(to) - static_cast<long double>(from);
}

std::vector<const SizedTrace*> nearest(const std::vector<SizedTrace>& traces, std::uint64_t size) {
  constexpr std::size_t kPoints = 3;
  std::vector<const SizedTrace*> all;
  all.reserve(traces.size());
  for (const SizedTrace& traced : traces) all.push_back(&traced);
  std::ranges::sort(all, {}, [&](const SizedTrace* traced) { return std::abs(distance(traced->size, size)); });
  all.resize(std::min(all.size(), kPoints));
  return all;
}

/// Lagrange's: 1 at the trace's own size, 0 at those of the others. long double keeps what is exact here exact for
/// amounts below 2^63.
long double weight_of(const SizedTrace& traced, const std::vector<const SizedTrace*>& all, std::uint64_t size) {
  long double weight = 1;
  for (const SizedTrace* const other : all)
    if (other != &traced) weight *= distance(other->size, size) / distance(other->size, traced.size);
  return weight;
}

/// On the line through the neighbours of the size. Measured times vary, and a line through two of them may leave what
/// is plausible beyond them: a time grows with the size, and shrinks at most in proportion to it.
std::chrono::nanoseconds time_at(const std::vector<SizedTrace>& traces, std::size_t op, std::uint64_t size) {
  const auto next = std::ranges::lower_bound(traces.begin() + 1, traces.end() - 1, size, {}, &SizedTrace::size);
  const SizedTrace &below = *std::prev(next), &above = *next;
  const auto time_of = [op](const SizedTrace& traced) {
    return static_cast<long double>(traced.trace.ops[op].time.count());
  };
  const long double share = distance(below.size, size) / distance(below.size, above.size);
  long double time = std::lerp(time_of(below), time_of(above), share);
  if (size > above.size) time = std::max(time, time_of(above));
  if (size < below.size) {
    const auto ratio = static_cast<long double>(size) / static_cast<long double>(below.size);
    time = std::clamp(time, ratio * time_of(below), time_of(below));
  }
  return std::chrono::nanoseconds(std::llround(time));
}

}  // namespace

std::string difference_of(const Trace& a, const Trace& b) {
  const std::size_t ops = std::min(a.ops.size(), b.ops.size());
  for (std::size_t i = 0; i < ops; ++i)
    if (!do_the_same(a.ops[i], b.ops[i])) {
      std::string text = "op " + std::to_string(i) + " is " + a.ops[i].name;
      return a.ops[i].name != b.ops[i].name ? text + " and " + b.ops[i].name : text + " on other storages";
    }
  if (a.ops.size() != b.ops.size()) return number_of("ops", a.ops.size(), b.ops.size());
  if (a.storages.size() != b.storages.size()) return number_of("storages", a.storages.size(), b.storages.size());
  for (std::size_t i = 0; i < a.storages.size(); ++i)
    if (a.storages[i].entry != b.storages[i].entry)
      return "storage " + std::to_string(i) + " lives through only one of the steps";
  return {};
}

OtherAmounts other_amounts(const Trace& a, const Trace& b) {
  OtherAmounts found;
  const auto compare = [&](const std::string& what, const char* unit, std::uint64_t one, std::uint64_t other) {
    if (one == other) return false;
    if (++found.count == 1) found.first = what + ": " + std::to_string(one) + " and " + std::to_string(other) + unit;
    return true;
  };
  for (std::size_t i = 0; i < a.storages.size(); ++i)
    compare("storage " + std::to_string(i), " bytes", a.storages[i].bytes.count(), b.storages[i].bytes.count());
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    const Op &one = a.ops[i], &other = b.ops[i];
    const std::string what = "op " + std::to_string(i) + ", " + one.name;
    static_cast<void>(compare(what, " bytes of temporaries", one.temporary.count(), other.temporary.count()) ||
                      compare(what, " bytes moved", one.moved.count(), other.moved.count()) ||
                      compare(what, " flops", one.flops, other.flops));
  }
  return found;
}

Scaling::Scaling(SizedTrace first, SizedTrace second) {
  traces_.push_back(std::move(first));
  add(std::move(second));
}

void Scaling::add(SizedTrace more) {
  const auto size_of = [](const SizedTrace& traced) { return traced.size; };
  if (std::ranges::find(traces_, more.size, size_of) != traces_.end())
    throw base::InvalidArgument("a trace is scaled from several sizes, and two are of " + std::to_string(more.size));
  const SizedTrace& known = traces_.front();
  if (const std::string difference = difference_of(known.trace, more.trace); !difference.empty())
    throw base::InvalidArgument("the steps at " + std::to_string(known.size) + " and " + std::to_string(more.size) +
                                " are not the same: " + difference);
  traces_.insert(std::ranges::upper_bound(traces_, more.size, {}, size_of), std::move(more));
}

Trace Scaling::at(std::uint64_t size) const {
  const std::vector<const SizedTrace*> from = nearest(traces_, size);
  std::vector<long double> weights;
  weights.reserve(from.size());
  for (const SizedTrace* const traced : from) weights.push_back(weight_of(*traced, from, size));
  Trace scaled = from.front()->trace;
  const auto between = [&](auto&& amount_of) {
    long double sum = 0;
    for (std::size_t i = 0; i < from.size(); ++i)
      sum += weights[i] * static_cast<long double>(amount_of(from[i]->trace));
    constexpr long double kMost = 0x1p62L;  // so that sums of two do not wrap
    return sum <= 0 ? 0 : static_cast<std::uint64_t>(std::round(std::min(sum, kMost)));
  };
  scaled.slab = Bytes(between([](const Trace& trace) { return trace.slab.count(); }));
  for (std::size_t i = 0; i < scaled.storages.size(); ++i)
    scaled.storages[i].bytes = Bytes(between([&](const Trace& trace) { return trace.storages[i].bytes.count(); }));
  for (std::size_t i = 0; i < scaled.ops.size(); ++i) {
    Op& op = scaled.ops[i];
    op.temporary = Bytes(between([&](const Trace& trace) { return trace.ops[i].temporary.count(); }));
    op.moved = Bytes(between([&](const Trace& trace) { return trace.ops[i].moved.count(); }));
    op.flops = between([&](const Trace& trace) { return trace.ops[i].flops; });
    op.time = time_at(traces_, i, size);
  }
  return scaled;
}

}  // namespace tensorpager::fit
