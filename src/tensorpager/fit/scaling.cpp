#include "tensorpager/fit/scaling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::fit {
namespace {

using base::Bytes;
using trace::Op;
using trace::Storage;
using trace::Trace;

bool do_the_same(const Op& a, const Op& b) {
  return a.name == b.name && a.reads == b.reads && a.writes == b.writes && a.births == b.births &&
         a.deaths == b.deaths && a.renews == b.renews && a.precision == b.precision && a.purity == b.purity;
}

std::string number_of(const char* what, std::size_t a, std::size_t b) {
  return std::to_string(a) + " and " + std::to_string(b) + " " + what;
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

std::size_t different_storages(const Trace& a, const Trace& b) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.storages.size(); ++i) different += a.storages[i].bytes != b.storages[i].bytes ? 1 : 0;
  return different;
}

Scaling::Scaling(SizedTrace first, SizedTrace second) : first_(std::move(first)), second_(std::move(second)) {
  if (first_.size == second_.size) throw base::InvalidArgument("a trace is scaled from two sizes, not from one");
  if (const std::string difference = difference_of(first_.trace, second_.trace); !difference.empty())
    throw base::InvalidArgument("the steps at " + std::to_string(first_.size) + " and " + std::to_string(second_.size) +
                                " are not the same: " + difference);
}

std::uint64_t Scaling::between(std::uint64_t a, std::uint64_t b, std::uint64_t size) const {
  // long double keeps integers below 2^64 exact.
  const auto distance = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<long double>(to) - static_cast<long double>(from);
  };
  const long double at =
      static_cast<long double>(a) + distance(a, b) * distance(first_.size, size) / distance(first_.size, second_.size);
  return at <= 0 ? 0 : static_cast<std::uint64_t>(std::round(at));
}

Trace Scaling::at(std::uint64_t size) const {
  const Trace& other = second_.trace;
  Trace scaled = first_.trace;
  const auto scale = [&](Bytes& bytes, Bytes of_other) {
    bytes = Bytes(between(bytes.count(), of_other.count(), size));
  };
  scale(scaled.slab, other.slab);
  for (std::size_t i = 0; i < scaled.storages.size(); ++i) scale(scaled.storages[i].bytes, other.storages[i].bytes);
  for (std::size_t i = 0; i < scaled.ops.size(); ++i) {
    Op& op = scaled.ops[i];
    scale(op.temporary, other.ops[i].temporary);
    scale(op.moved, other.ops[i].moved);
    op.flops = between(op.flops, other.ops[i].flops, size);
  }
  return scaled;
}

}  // namespace tensorpager::fit
