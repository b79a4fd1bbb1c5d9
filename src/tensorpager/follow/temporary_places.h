// Where the temporaries of the op under way are placed: in the first gap of the row that the plan has for them; if
// several leave none of that size there, in the first gap between everything else that is to be resident.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/names.h"
#include "tensorpager/follow/page_out_queue.h"

namespace tensorpager::follow {

class TemporaryPlaces {
 public:
  explicit TemporaryPlaces(const Agenda& agenda) : agenda_(agenda) {}

  /// An op begins, and has no temporaries.
  void begin_op() { temporaries_.clear(); }
  /// Places a temporary of this op of the plan, which is about to be made. Returns nullopt if there is no gap.
  /// Page-outs under way are in their rows still.
  std::optional<std::uint64_t> place(std::uint32_t op, base::Bytes charged, const PageOutQueue& page_outs);
  /// The temporary that was placed last was not made after all, if no block has come since.
  void cancel_pending();
  /// A block was made: if a temporary was placed for it, it is there.
  void created(const Block& block);
  void died(const Block& block) noexcept;

 private:
  struct Range {
    std::uint64_t begin, end;
  };
  struct Temporary {
    const Block* block;  // null: it is about to be made
    Range range;
  };

  std::optional<std::uint64_t> gap_in_row(std::uint32_t op, std::uint64_t size) const;
  std::optional<std::uint64_t> gap_between_rows(std::uint32_t op, std::uint64_t size,
                                                const PageOutQueue& page_outs) const;

  const Agenda& agenda_;
  std::vector<Temporary> temporaries_;  // of the op under way, by begin
};

}  // namespace tensorpager::follow
