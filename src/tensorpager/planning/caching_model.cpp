#include "tensorpager/planning/caching_model.h"

#include <algorithm>
#include <map>
#include <set>
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

class CachingModel {
 public:
  std::uint64_t reserved() const { return reserved_; }

  /// The address; segments lie far apart.
  std::uint64_t take(std::uint64_t bytes) {
    bytes = (bytes + kRounding - 1) / kRounding * kRounding;
    auto& free = pools_[bytes > kSmall];
    auto found = free.lower_bound({bytes, 0});
    if (found == free.end()) {
      const std::uint64_t segment = bytes <= kSmall       ? kSmallSegment
                                    : bytes < kOwnSegment ? kLargeSegment
                                                          : (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
      reserved_ += segment;
      next_ += kApart;
      found = free.emplace(segment, next_).first;
    }
    const auto [size, address] = *found;
    free.erase(found);
    // A large block is only split where more than a small request is left.
    const bool is_split = bytes <= kSmall ? size - bytes >= kRounding : size - bytes > kSmall;
    taken_[address] = is_split ? bytes : size;
    if (is_split) free.emplace(size - bytes, address + bytes);
    return address;
  }

  void give_back(std::uint64_t address) {
    std::uint64_t size = taken_.at(address);
    taken_.erase(address);
    for (auto& free : pools_) {
      for (auto block = free.begin(); block != free.end();) {
        const auto [other, at] = *block;
        const bool touches = at / kApart == address / kApart && (at + other == address || address + size == at);
        if (!touches) {
          ++block;
          continue;
        }
        address = std::min(address, at);
        size += other;
        free.erase(block);
        block = free.begin();
      }
    }
    pools_[pool_of(address)].emplace(size, address);
  }

  void note_pool(std::uint64_t address, std::uint64_t bytes) { pool_by_segment_[address / kApart] = bytes > kSmall; }

 private:
  static constexpr std::uint64_t kApart = std::uint64_t{1} << 45;
  std::size_t pool_of(std::uint64_t address) const { return pool_by_segment_.at(address / kApart); }

  std::set<std::pair<std::uint64_t, std::uint64_t>> pools_[2];  // free: size, address
  std::map<std::uint64_t, std::uint64_t> taken_;                // address -> size
  std::map<std::uint64_t, std::size_t> pool_by_segment_;
  std::uint64_t reserved_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace

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
      model.note_pool(of.back(), row.bytes.count());
    } else if (!of.empty()) {
      model.give_back(of.front());
      of.erase(of.begin());
    }
  }
  return base::Bytes(model.reserved()) + plan.slab;
}

}  // namespace tensorpager::planning
