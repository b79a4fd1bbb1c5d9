// A device's copies to and from pageable host memory, through a pinned buffer for each direction. The queue of the
// direction does all of it, piece by piece: the host does not wait, and a buffer is free for the next piece when the
// queue gets to it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/device/streams.h"

namespace tensorpager::transfer {

class StagedCopies {
 public:
  static constexpr base::Bytes kBuffer{std::uint64_t{8} << 20};
  static constexpr base::Bytes kSmallestBuffer{4096};

  /// The size of a buffer if all pinned memory is limited to `pinned`: at most a quarter of that.
  static base::Bytes buffer_within(base::Bytes pinned);

  /// `buffer`: bytes of each of the two, which are allocated with the first copy. `streams` must outlive this.
  StagedCopies(device::Streams& streams, base::Bytes buffer) : streams_(streams), buffer_(buffer) {}
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  /// In the queues of page-outs and of page-ins; the second returns its bytes. Throw IoError if the runtime refuses.
  void out(std::byte* to, std::span<const std::byte> from);
  base::Bytes in(const std::vector<std::span<std::byte>>& to, const std::byte* from);

  base::Bytes pinned() const;
  base::Bytes most_pinned() const { return buffer_ + buffer_; }

 private:
  std::byte* buffer_of(device::Queue queue);

  device::Streams& streams_;
  const base::Bytes buffer_;
  std::byte* buffers_[2] = {};
};

}  // namespace tensorpager::transfer
