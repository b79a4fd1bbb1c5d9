#include "tensorpager/plan/plan.h"

#include <algorithm>
#include <map>

namespace tensorpager::plan {
namespace {

/// Adds the bytes of one storage's slots to `changes`, by op: at what begins, and less at what ends. `rows` are its
/// rows in the order of the table.
void add_slots(const std::vector<const Row*>& rows, std::uint32_t ops, std::vector<std::int64_t>& changes) {
  const auto add = [&](std::uint32_t begin, std::uint32_t end, base::Bytes bytes) {
    changes[begin] += static_cast<std::int64_t>(bytes.count());
    changes[end] -= static_cast<std::int64_t>(bytes.count());
  };
  bool has_slot = false;
  for (const bool is_steady : {false, true}) {  // the second window is as all later ones
    std::uint32_t begin = 0;
    for (const Row* row : rows) {
      // A storage may leave without a page-out if the slot of an earlier one still has its bytes.
      if ((row->leave == Leave::kPageOut || row->leave == Leave::kDrop) && !has_slot) {
        has_slot = true;
        begin = row->end;
      } else if (row->leave == Leave::kDies && has_slot) {
        if (is_steady) add(begin, row->end, row->bytes);
        has_slot = false;
      }
    }
    if (has_slot && is_steady) add(begin, ops, rows.back()->bytes);
  }
}

}  // namespace

base::Bytes Plan::top() const {
  std::uint64_t top = 0;
  for (const Row& row : rows) top = std::max(top, row.offset + row.bytes.count());
  return base::Bytes(top);
}

base::Bytes host_bytes(const Plan& plan) {
  std::map<StorageId, std::vector<const Row*>> rows;
  for (const Row& row : plan.rows)
    if (row.storage != kTemporary) rows[row.storage].push_back(&row);
  std::vector<std::int64_t> changes(plan.ops + 1);
  for (const auto& [storage, of_it] : rows) add_slots(of_it, plan.ops, changes);
  std::int64_t now = 0, most = 0;
  for (const std::int64_t change : changes) most = std::max(most, now += change);
  return base::Bytes(static_cast<std::uint64_t>(most));
}

std::vector<std::uint32_t> page_outs_of(const std::vector<Row>& rows) {
  std::vector<std::uint32_t> page_outs;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].leave == Leave::kPageOut) page_outs.push_back(i);
  }
  std::ranges::stable_sort(page_outs, {}, [&](std::uint32_t i) { return rows[i].end; });
  return page_outs;
}

}  // namespace tensorpager::plan
