#include "tensorpager/fit/plain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "tensorpager/fit/search.h"
#include "tensorpager/planning/caching_model.h"

namespace tensorpager::fit {
namespace {

/// What the model says at a size, and what is known that it errs: between two sizes in proportion, beyond as at the
/// nearest.
class Correction {
 public:
  Correction(const Scaling& scaling, const Reserved& known) : scaling_(scaling) {
    errors_.reserve(known.size());
    for (const auto& [size, reserved] : known)
      errors_.emplace_back(static_cast<double>(size), amount(reserved) - modelled(size));
  }

  base::Bytes predicted(std::uint64_t size) const {
    return base::Bytes(static_cast<std::uint64_t>(std::max(0.0, std::round(modelled(size) + error(size)))));
  }

 private:
  static double amount(base::Bytes bytes) { return static_cast<double>(bytes.count()); }
  double modelled(std::uint64_t size) const { return amount(reserved_by_torch(scaling_.at(size))); }

  double error(std::uint64_t of) const {
    const auto size = static_cast<double>(of);
    const auto above = std::ranges::lower_bound(errors_, size, {}, &std::pair<double, double>::first);
    if (above == errors_.begin()) return above->second;
    const auto below = std::prev(above);
    if (above == errors_.end()) return below->second;
    return std::lerp(below->second, above->second, (size - below->first) / (above->first - below->first));
  }

  const Scaling& scaling_;
  std::vector<std::pair<double, double>> errors_;  // bytes too few at a size, by size
};

}  // namespace

base::Bytes reserved_by_torch(const trace::Trace& trace) {
  constexpr int kSteps = 3;
  planning::CachingModel model;
  std::vector<std::optional<std::uint64_t>> addresses(trace.storages.size());
  const auto take = [&](trace::StorageId id) {
    const base::Bytes bytes = trace.storages[trace::index(id)].bytes;
    if (bytes.count() > 0) addresses[trace::index(id)] = model.take(bytes.count());
  };
  const auto give_back = [&](trace::StorageId id) {
    auto& address = addresses[trace::index(id)];
    if (address) model.give_back(*address);
    address.reset();
  };
  for (std::uint32_t i = 0; i < trace.storages.size(); ++i)
    if (trace.storages[i].entry) take(trace::StorageId(i));
  for (int step = 0; step < kSteps; ++step)
    for (const trace::Op& op : trace.ops) {
      for (const trace::StorageId id : op.births) take(id);
      if (op.temporary.count() > 0) model.give_back(model.take(op.temporary.count()));
      for (const trace::StorageId id : op.deaths) give_back(id);
    }
  return base::Bytes(model.reserved()) + trace.slab;
}

Plain largest_plain(const Scaling& scaling, base::Bytes room, std::uint64_t most, Reserved known,
                    const std::function<std::optional<base::Bytes>(std::uint64_t size)>& ask) {
  constexpr int kMostAsked = 4;
  std::erase_if(known, [most](const auto& one) { return one.first > most; });
  if (known.empty()) return {};
  for (int asked = 0;; ++asked) {
    const auto has_room = [room](const auto& one) { return one.second <= room; };
    const auto last = std::find_if(known.rbegin(), known.rend(), has_room);
    const std::uint64_t fits = last == known.rend() ? 0 : last->first;
    const auto next = last.base();  // known, and too large
    const Correction model(scaling, known);
    const std::uint64_t largest =
        largest_size(known.rbegin()->first, most, [&](std::uint64_t size) { return model.predicted(size) <= room; });
    std::uint64_t size = std::clamp(largest, fits, next == known.end() ? most : next->first - 1);
    if (size == 0 && !known.contains(1)) size = 1;  // only the allocator says that there is none
    if (size == 0) return {.is_confirmed = true};
    if (size == fits || (asked == kMostAsked && fits > 0))
      return {.size = fits, .reserved = known.at(fits), .is_confirmed = true};
    if (asked == kMostAsked) return {};
    const std::optional<base::Bytes> reserved = ask(size);
    if (!reserved) return {.size = size, .reserved = model.predicted(size)};
    known[size] = *reserved;
  }
}

}  // namespace tensorpager::fit
