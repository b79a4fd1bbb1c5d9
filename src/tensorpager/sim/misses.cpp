#include "tensorpager/sim/misses.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::sim {
namespace {

using trace::index;
using trace::Op;
using trace::StorageId;

constexpr std::size_t kLongestLife = 50;  // of the storage that an inserted op makes, in ops

class Misser {
 public:
  Misser(const trace::Trace& planned, std::mt19937& random) : planned_(planned), random_(random) {
    missed_.window = {.granule = planned.granule, .slab = planned.slab, .storages = planned.storages, .ops = {}};
    for (std::uint32_t i = 0; i < planned.storages.size(); ++i)
      if (planned.storages[i].entry) alive_.push_back(StorageId{i});
  }

  Missed run(double share) {
    for (std::size_t i = 0; i < planned_.ops.size(); ++i) {
      const Op& op = planned_.ops[i];
      const bool is_missed = std::bernoulli_distribution(share)(random_);
      const std::size_t kind = below(3);
      is_last_ = i + 1 == planned_.ops.size();
      const bool may_change = !missed_.window.ops.empty() && !is_last_ && !touches_entries(op);
      if (is_missed && kind == 0 && !alive_.empty()) insert_before(op);
      if (is_missed && kind == 1 && may_change)
        leave_out(op);
      else
        add(op);
      if (is_missed && kind == 2 && may_change && !op.births.empty()) grow(op);
    }
    return std::move(missed_);
  }

 private:
  struct Foreign {
    StorageId id;
    std::size_t ops_left;
  };

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  bool touches_entries(const Op& op) const {
    const auto is_entry = [&](StorageId id) { return planned_.storages[index(id)].entry; };
    return std::ranges::any_of(op.births, is_entry) || std::ranges::any_of(op.deaths, is_entry);
  }

  void insert_before(const Op& op) {
    const StorageId made{static_cast<std::uint32_t>(missed_.window.storages.size())};
    Op inserted{.name = "inserted", .reads = {alive_[below(alive_.size())]}, .births = {made}, .time = op.time};
    const StorageId other = alive_[below(alive_.size())];
    if (other != inserted.reads.front()) inserted.reads.push_back(other);
    if (below(4) == 0) inserted.writes = {other};
    const base::Bytes bytes = missed_.window.storages[index(other)].bytes;
    missed_.window.storages.push_back({.bytes = bytes});
    foreign_.push_back({made, 1 + below(kLongestLife)});
    ++missed_.inserted;
    add(std::move(inserted));
  }

  /// Leaves an op out; the op before it gets its births and deaths.
  void leave_out(const Op& op) {
    for (const StorageId id : op.births) missed_.window.storages[index(id)].bytes = base::Bytes(0);
    Op& before = missed_.window.ops.back();
    before.births.insert(before.births.end(), op.births.begin(), op.births.end());
    before.deaths.insert(before.deaths.end(), op.deaths.begin(), op.deaths.end());
    note_alive(op);
    ++missed_.left_out;
  }

  void grow(const Op& op) {
    for (const StorageId id : op.births) {
      base::Bytes& bytes = missed_.window.storages[index(id)].bytes;
      bytes = base::Bytes(bytes.count() + bytes.count() / 4);
    }
    ++missed_.grown;
  }

  void add(Op op) {
    std::erase_if(foreign_, [&](Foreign& one) {
      const bool dies = --one.ops_left == 0 || is_last_;
      if (dies) op.deaths.push_back(one.id);
      return dies;
    });
    note_alive(op);
    missed_.window.ops.push_back(std::move(op));
  }

  void note_alive(const Op& op) {
    alive_.insert(alive_.end(), op.births.begin(), op.births.end());
    for (const StorageId id : op.deaths) std::erase(alive_, id);
  }

  const trace::Trace& planned_;
  std::mt19937& random_;
  Missed missed_;
  std::vector<StorageId> alive_;
  std::vector<Foreign> foreign_;  // storages that inserted ops made
  bool is_last_ = false;          // whether the current planned op is the last
};

}  // namespace

Missed with_misses(const trace::Trace& planned, double share, std::mt19937& random) {
  return Misser(planned, random).run(share);
}

}  // namespace tensorpager::sim
