#include "tensorpager/plan/versions.h"

#include <algorithm>

namespace tensorpager::plan {

using trace::index;
using trace::StorageId;

bool is_made_anew(const trace::Op& op, StorageId id) {
  const auto has = [&](const std::vector<StorageId>& list) { return std::ranges::find(list, id) != list.end(); };
  return has(op.births) || (op.purity == trace::Purity::kFills && has(op.writes) && !has(op.reads));
}

Versions::Versions(const trace::Trace& trace)
    : begins_(trace.storages.size() + 1),
      deaths_(trace.storages.size(), static_cast<std::uint32_t>(trace.ops.size())),
      ops_(static_cast<std::uint32_t>(trace.ops.size())) {
  for (const trace::Op& op : trace.ops) {
    for (const auto* list : {&op.writes, &op.births}) {
      for (const StorageId id : *list) ++begins_[index(id) + 1];
    }
  }
  for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  writers_.resize(begins_.back());
  is_first_.resize(begins_.back());
  std::vector<std::size_t> next(begins_);
  for (std::uint32_t op = 0; op < ops_; ++op) {
    for (const auto* list : {&trace.ops[op].writes, &trace.ops[op].births}) {
      for (const StorageId id : *list) {
        is_first_[next[index(id)]] = is_made_anew(trace.ops[op], id);
        writers_[next[index(id)]++] = op;
      }
    }
    for (const StorageId id : trace.ops[op].deaths) deaths_[index(id)] = op;
  }
}

std::span<const std::uint32_t> Versions::writers(StorageId id) const {
  return {writers_.data() + begins_[index(id)], begins_[index(id) + 1] - begins_[index(id)]};
}

std::span<const std::uint32_t> Versions::makers(StorageId id, std::uint32_t version) const {
  const auto its = writers(id).first(version);
  for (std::size_t i = its.size(); i-- > 0;) {
    if (is_first_[begins_[index(id)] + i]) return its.subspan(i);
  }
  return its;
}

std::uint32_t Versions::before(std::uint32_t op, StorageId id) const {
  const auto its = writers(id);
  return static_cast<std::uint32_t>(std::ranges::lower_bound(its, op) - its.begin());
}

std::uint32_t Versions::until(StorageId id, std::uint32_t version) const {
  const auto its = writers(id);
  const std::uint32_t next_writer = version < its.size() ? its[version] : ops_;
  const std::uint32_t death = deaths_[index(id)];
  // A storage of the window's entry may die before it is made again.
  const bool dies_later = version == 0 || its[version - 1] <= death;
  return dies_later ? std::min(next_writer, death) : next_writer;
}

}  // namespace tensorpager::plan
