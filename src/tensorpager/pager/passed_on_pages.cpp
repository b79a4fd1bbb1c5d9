#include "tensorpager/pager/passed_on_pages.h"

#include <algorithm>
#include <utility>

namespace tensorpager::pager {

using arena::Piece;
using base::Bytes;

namespace {

/// Of one page-in: each costs it a system call, and the block a mapping.
constexpr std::size_t kMostPieces = 8;

bool contains(const Piece& outer, const Piece& inner) {
  return outer.at <= inner.at && inner.at + inner.bytes.count() <= outer.at + outer.bytes.count();
}

/// What to take of a piece that has more than is wanted: whole huge pages from its begin and the rest from its end, so
/// that what is left begins with a huge page if the piece does.
std::vector<Piece> cut(const Piece& piece, Bytes wanted) {
  const Bytes huge = base::round_down(wanted, base::kHugePage), rest = wanted - huge;
  std::vector<Piece> pieces;
  if (huge > Bytes(0)) pieces.push_back({piece.at, huge});
  if (rest > Bytes(0)) pieces.push_back({piece.at + (piece.bytes - rest).count(), rest});
  return pieces;
}

}  // namespace

void PassedOnPages::add(Block& block, std::byte* at) {
  const Piece all{at, block.charged};
  records_.push_back({.block = &block, .all = all, .left = {all}});
  bytes_ += all.bytes;
}

std::vector<Piece> PassedOnPages::remove(const Block& block) {
  const auto record = std::ranges::find(records_, &block, &Record::block);
  std::vector<Piece> left = std::move(record->left);
  records_.erase(record);
  for (const Piece& piece : left) bytes_ -= piece.bytes;
  return left;
}

PassedOnPages::Taken PassedOnPages::find(Bytes bytes) const {
  Taken taken;
  for (const Record& record : records_)
    for (const Piece& piece : record.left) {
      const Bytes missing = bytes - taken.bytes;
      const std::vector<Piece> parts = piece.bytes > missing ? cut(piece, missing) : std::vector<Piece>{piece};
      if (parts.empty() || taken.pieces.size() + parts.size() > kMostPieces) return taken;
      for (const Piece& part : parts) {
        taken.pieces.push_back(part);
        taken.bytes += part.bytes;
      }
      taken.after |= record.block->copy;
    }
  return taken;
}

PassedOnPages::Taken PassedOnPages::take(Bytes bytes) {
  Taken taken = find(bytes);
  for (const Piece& part : taken.pieces) {
    const auto record = std::ranges::find_if(records_, [&](const Record& one) { return contains(one.all, part); });
    const auto piece = std::ranges::find_if(record->left, [&](const Piece& one) { return contains(one, part); });
    const Piece whole = *piece;
    record->left.erase(piece);
    const Piece before{whole.at, Bytes(static_cast<std::uint64_t>(part.at - whole.at))};
    const Piece behind{part.at + part.bytes.count(), whole.bytes - before.bytes - part.bytes};
    for (const Piece& rest : {before, behind})
      if (rest.bytes > Bytes(0)) record->left.push_back(rest);
  }
  bytes_ -= taken.bytes;
  return taken;
}

bool PassedOnPages::give_back(const Piece& piece) {
  const auto record = std::ranges::find_if(records_, [&](const Record& one) { return contains(one.all, piece); });
  if (record == records_.end()) return false;
  record->left.push_back(piece);
  bytes_ += piece.bytes;
  return true;
}

}  // namespace tensorpager::pager
