#include "tensorpager/follow/temporary_places.h"

#include <algorithm>

namespace tensorpager::follow {

namespace {

/// The first gap of a size between ranges that are given by their begins.
class GapSearch {
 public:
  GapSearch(std::uint64_t from, std::uint64_t size) : begin_(from), size_(size) {}

  /// Returns whether the gap is before this range; else it is behind it.
  bool ends_at(std::uint64_t begin, std::uint64_t end) {
    if (begin_ + size_ <= begin) return true;
    begin_ = std::max(begin_, end);
    return false;
  }
  std::optional<std::uint64_t> below(std::uint64_t top) const {
    return begin_ + size_ <= top ? std::optional(begin_) : std::nullopt;
  }

 private:
  std::uint64_t begin_;
  std::uint64_t size_;
};

}  // namespace

std::optional<std::uint64_t> TemporaryPlaces::place(std::uint32_t op, base::Bytes charged,
                                                    const PageOutQueue& page_outs) {
  auto begin = gap_in_row(op, charged.count());
  if (!begin) begin = gap_between_rows(op, charged.count(), page_outs);
  if (!begin) return std::nullopt;
  const auto next =
      std::ranges::upper_bound(temporaries_, *begin, {}, [](const Temporary& one) { return one.range.begin; });
  temporaries_.insert(next, {nullptr, {*begin, *begin + charged.count()}});
  return begin;
}

void TemporaryPlaces::cancel_pending() {
  std::erase_if(temporaries_, [](const Temporary& one) { return one.block == nullptr; });
}

void TemporaryPlaces::created(const Block& block) {
  const auto pending = std::ranges::find(temporaries_, nullptr, &Temporary::block);
  if (pending != temporaries_.end()) pending->block = &block;
}

void TemporaryPlaces::died(const Block& block) noexcept {
  std::erase_if(temporaries_, [&](const Temporary& one) { return one.block == &block; });
}

std::optional<std::uint64_t> TemporaryPlaces::gap_in_row(std::uint32_t op, std::uint64_t size) const {
  const Row* const row = agenda_.born_row(kTemporary, op);
  if (row == nullptr) return std::nullopt;
  GapSearch gap(row->offset, size);
  for (const auto& [block, range] : temporaries_)
    if (gap.ends_at(range.begin, range.end)) break;
  return gap.below(row->offset + row->bytes.count());
}

std::optional<std::uint64_t> TemporaryPlaces::gap_between_rows(std::uint32_t op, std::uint64_t size,
                                                               const PageOutQueue& page_outs) const {
  std::vector<Range> others;
  others.reserve(temporaries_.size() + page_outs.in_flight().size());
  for (const auto& [block, range] : temporaries_) others.push_back(range);
  for (const PageOutQueue::PageOut& page_out : page_outs.in_flight()) {
    const Row& row = agenda_.row(page_out.row);
    others.push_back({row.offset, row.offset + row.bytes.count()});
  }
  std::ranges::sort(others, {}, &Range::begin);
  GapSearch gap(0, size);
  auto other = others.begin();
  for (const std::uint32_t i : agenda_.resident_rows().near(op)) {
    const Row& row = agenda_.row(i);
    if (op < row.begin || op >= row.end) continue;
    for (; other != others.end() && other->begin < row.offset; ++other)
      if (gap.ends_at(other->begin, other->end)) return gap.below(agenda_.resident_rows().top());
    if (gap.ends_at(row.offset, row.offset + row.bytes.count())) return gap.below(agenda_.resident_rows().top());
  }
  for (; other != others.end(); ++other)
    if (gap.ends_at(other->begin, other->end)) break;
  return gap.below(agenda_.resident_rows().top());
}

}  // namespace tensorpager::follow
