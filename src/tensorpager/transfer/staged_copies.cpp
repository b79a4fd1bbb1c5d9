#include "tensorpager/transfer/staged_copies.h"

#include <algorithm>

namespace tensorpager::transfer {

using base::Bytes;
using device::Queue;

Bytes StagedCopies::buffer_within(Bytes pinned) {
  return std::clamp(base::round_down(Bytes(pinned.count() / 4), kSmallestBuffer), kSmallestBuffer, kBuffer);
}

StagedCopies::~StagedCopies() {
  for (std::byte* const buffer : buffers_)
    if (buffer != nullptr) streams_.free_pinned(buffer);
}

std::byte* StagedCopies::buffer_of(Queue queue) {
  std::byte*& buffer = buffers_[device::index_of(queue)];
  if (buffer == nullptr) buffer = streams_.allocate_pinned(buffer_);
  return buffer;
}

void StagedCopies::out(std::byte* to, std::span<const std::byte> from) {
  std::byte* const buffer = buffer_of(Queue::kPageOuts);
  while (!from.empty()) {
    const auto piece = from.first(std::min<std::size_t>(from.size(), buffer_.count()));
    streams_.copy(Queue::kPageOuts, buffer, piece.data(), Bytes(piece.size()));
    streams_.copy_on_host(Queue::kPageOuts, to, buffer, Bytes(piece.size()));
    from = from.subspan(piece.size());
    to += piece.size();
  }
}

Bytes StagedCopies::in(const std::vector<std::span<std::byte>>& to, const std::byte* from) {
  std::byte* const buffer = buffer_of(Queue::kPageIns);
  const std::byte* const first = from;
  for (std::span<std::byte> part : to)
    while (!part.empty()) {
      const auto piece = part.first(std::min<std::size_t>(part.size(), buffer_.count()));
      streams_.copy_on_host(Queue::kPageIns, buffer, from, Bytes(piece.size()));
      streams_.copy(Queue::kPageIns, piece.data(), buffer, Bytes(piece.size()));
      part = part.subspan(piece.size());
      from += piece.size();
    }
  return Bytes(static_cast<std::uint64_t>(from - first));
}

Bytes StagedCopies::pinned() const {
  return Bytes(buffer_.count() * static_cast<std::size_t>(std::ranges::count_if(
                                     buffers_, [](const std::byte* buffer) { return buffer != nullptr; })));
}

}  // namespace tensorpager::transfer
