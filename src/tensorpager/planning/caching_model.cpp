#include "tensorpager/planning/caching_model.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

#include "tensorpager/plan/timing.h"

namespace tensorpager::planning {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kRounding = 512;
constexpr std::uint64_t kSmall = kMiB;  // the largest request of the small pool
constexpr std::uint64_t kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kLargeSegment = 20 * kMiB;
constexpr std::uint64_t kOwnSegment = 10 * kMiB;  // from here on a request has a segment of its own

}  // namespace

std::uint64_t CachingModel::take(std::uint64_t bytes) {
  bytes = (bytes + kRounding - 1) / kRounding * kRounding;
  const std::size_t number = bytes > kSmall ? 1 : 0;
  Pool& pool = pools_[number];
  if (pool.by_size.lower_bound({bytes, 0}) == pool.by_size.end()) {
    const std::uint64_t segment = bytes <= kSmall       ? kSmallSegment
                                  : bytes < kOwnSegment ? kLargeSegment
                                                        : (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    reserved_ += segment;
    next_ += kApart;
    pool_of_segment_[next_ / kApart] = number;
    add(pool, next_, segment);
  }
  const auto [size, address] = *pool.by_size.lower_bound({bytes, 0});
  remove(pool, address, size);
  // A large block is only split where more than a small request is left.
  const bool is_split = bytes <= kSmall ? size - bytes >= kRounding : size - bytes > kSmall;
  taken_[address] = is_split ? bytes : size;
  if (is_split) add(pool, address + bytes, size - bytes);
  return address;
}

void CachingModel::give_back(std::uint64_t address) {
  const std::uint64_t segment = address / kApart;
  std::uint64_t size = taken_.at(address);
  taken_.erase(address);
  Pool& pool = pools_[pool_of_segment_.at(segment)];
  auto next = pool.by_address.find(address + size);
  if (next != pool.by_address.end() && next->first / kApart == segment) {
    const std::uint64_t more = next->second;
    remove(pool, address + size, more);
    size += more;
  }
  next = pool.by_address.lower_bound(address);
  if (next != pool.by_address.begin()) {
    const auto [before, length] = *std::prev(next);
    if (before + length == address && before / kApart == segment) {
      remove(pool, before, length);
      address = before;
      size += length;
    }
  }
  add(pool, address, size);
}

void CachingModel::add(Pool& pool, std::uint64_t address, std::uint64_t size) {
  pool.by_size.emplace(size, address);
  pool.by_address.emplace(address, size);
}

void CachingModel::remove(Pool& pool, std::uint64_t address, std::uint64_t size) {
  pool.by_size.erase({size, address});
  pool.by_address.erase(address);
}

base::Bytes cached_for(const Plan& plan) {
  struct Event {
    std::uint32_t op;
    bool takes;
    std::uint32_t row;
  };
  const std::vector<std::uint32_t> page_outs = page_outs_of(plan.rows);
  const std::vector<std::uint32_t> released = release_ops(plan.rows, plan.ops);
  std::vector<std::uint32_t> ends;
  ends.reserve(plan.rows.size());
  for (const Row& row : plan.rows) ends.push_back(row.end);
  for (std::size_t ticket = 0; ticket < page_outs.size(); ++ticket) ends[page_outs[ticket]] = released[ticket];
  // Two windows: what the second begins with is what the first left.
  std::vector<Event> events;
  for (std::uint32_t window = 0; window < 2; ++window) {
    for (std::uint32_t i = 0; i < plan.rows.size(); ++i) {
      const Row& row = plan.rows[i];
      const std::uint32_t first = window * plan.ops;
      if (row.fill != Fill::kBoundary || window == 0) events.push_back({row.begin + first, true, i});
      if (row.leave != Leave::kBoundary) events.push_back({ends[i] + first, false, i});
    }
  }
  std::ranges::stable_sort(events, {}, [](const Event& event) { return std::tuple(event.op, event.takes); });
  CachingModel model;
  std::map<StorageId, std::vector<std::uint64_t>> addresses;  // oldest first
  for (const Event& event : events) {
    const Row& row = plan.rows[event.row];
    auto& of = addresses[row.storage];
    if (event.takes) {
      of.push_back(model.take(row.bytes.count()));
    } else if (!of.empty()) {
      model.give_back(of.front());
      of.erase(of.begin());
    }
  }
  return base::Bytes(model.reserved()) + plan.slab;
}

}  // namespace tensorpager::planning
