#include "tensorpager/plan/liveness.h"

#include <algorithm>

#include "tensorpager/base/config.h"

namespace tensorpager::plan {

using base::Bytes;
using trace::index;
using trace::StorageId;

Liveness::Liveness(const trace::Trace& trace) : lives_(trace.storages.size()), deaths_(trace.ops.size()) {
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    const Bytes charged = base::round_up(trace.storages[i].bytes, trace.granule);
    lives_[i] = {
        .bytes = charged.count(), .pageable = charged >= base::kMinPagedBytes, .entry = trace.storages[i].entry};
  }
  read_ops(trace);
  add_up(trace);
}

std::span<const Use> Liveness::uses(StorageId id) const {
  const std::size_t begin = use_begins_[index(id)];
  return {uses_.data() + begin, use_begins_[index(id) + 1] - begin};
}

Idle Liveness::idle_after(StorageId id, std::size_t used) const {
  constexpr std::int64_t kFar = 5;  // windows
  const std::span<const Use> its = uses(id);
  if (its.empty()) return {.until = kFar * ops(), .dies = false};
  const bool passed = used == its.size();
  const std::int64_t wrapped = passed && life(id).entry ? ops() : 0;
  const std::uint32_t op = its[passed ? 0 : used].op;
  // A gradient may die early in the window and be born later: its birth is not a use of the earlier life.
  const bool dies = life(id).birth == op || (passed && !life(id).entry);
  if (!dies) return {.until = wrapped + op, .dies = false};
  return {.until = life(id).death ? wrapped + *life(id).death : kFar * ops(), .dies = true};
}

std::span<const Touch> Liveness::touches(std::uint32_t op) const {
  return {touches_.data() + touch_begins_[op], touch_begins_[op + 1] - touch_begins_[op]};
}

void Liveness::read_ops(const trace::Trace& trace) {
  std::vector<std::size_t> last_touch(lives_.size(), SIZE_MAX);
  std::vector<std::size_t> counts(lives_.size() + 1);
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    const std::size_t begin = touches_.size();
    touch_begins_.push_back(begin);
    const auto touch = [&](const std::vector<StorageId>& ids, bool write) {
      for (const StorageId id : ids) {
        if (!life(id).pageable) continue;
        std::size_t& at = last_touch[index(id)];
        if (at != SIZE_MAX && at >= begin) {
          touches_[at].write |= write;
        } else {
          at = touches_.size();
          touches_.push_back({id, write});
          ++counts[index(id)];
        }
      }
    };
    touch(trace.ops[op].reads, false);
    touch(trace.ops[op].writes, true);
    touch(trace.ops[op].births, true);
    for (const StorageId id : trace.ops[op].births) lives_[index(id)].birth = op;
    for (const StorageId id : trace.ops[op].deaths) {
      lives_[index(id)].death = op;
      if (life(id).pageable) deaths_[op].push_back(id);
    }
  }
  touch_begins_.push_back(touches_.size());

  use_begins_.resize(lives_.size() + 1);
  for (std::size_t i = 0; i < lives_.size(); ++i) use_begins_[i + 1] = use_begins_[i] + counts[i];
  uses_.resize(touches_.size());
  std::vector<std::size_t> next(use_begins_);
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const Touch& touch : touches(op)) uses_[next[index(touch.storage)]++] = {op, touch.write};
  }
}

void Liveness::add_up(const trace::Trace& trace) {
  std::uint64_t large = 0;
  std::uint64_t small = trace.slab.count();
  const auto account = [&](StorageId id) -> std::uint64_t& { return life(id).pageable ? large : small; };
  for (std::uint32_t i = 0; i < lives_.size(); ++i) {
    if (lives_[i].entry) account(StorageId{i}) += lives_[i].bytes;
  }
  std::uint64_t slab = small;
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const StorageId id : trace.ops[op].births) account(id) += life(id).bytes;
    const Bytes temporary = base::round_up(trace.ops[op].temporary, trace.granule);
    const bool is_large = temporary >= base::kMinPagedBytes;
    temporaries_.push_back(is_large ? temporary.count() : 0);
    slab = std::max(slab, small + (is_large ? 0 : temporary.count()));
    live_.emplace_back(large + temporaries_.back());

    std::uint64_t working_set = temporaries_.back();
    for (const Touch& touch : touches(op)) working_set += life(touch.storage).bytes;
    if (Bytes(working_set) > floor_) {
      floor_ = Bytes(working_set);
      floor_op_ = op;
    }
    if (live_.back() > need_) {
      need_ = live_.back();
      need_op_ = op;
    }
    for (const StorageId id : trace.ops[op].deaths) account(id) -= life(id).bytes;
  }
  slab_ = Bytes(slab);
  need_ += slab_;
  floor_ += slab_;
  for (Bytes& live : live_) live += slab_;
}

}  // namespace tensorpager::plan
