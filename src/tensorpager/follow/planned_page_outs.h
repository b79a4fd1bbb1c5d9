// The page-outs of a plan, by their tickets, and how long they are under way. A value that never changes.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/follow/names.h"

namespace tensorpager::follow {

class PlannedPageOuts {
 public:
  explicit PlannedPageOuts(const Plan& plan);

  /// The ticket of a row's page-out, from 1; 0 if the row has none.
  std::uint32_t ticket(std::uint32_t row) const { return tickets_[row]; }

  struct UnderWay {
    base::Bytes bytes;
    std::uint32_t until;  // the op before which it is awaited, counted on into the next window
  };
  /// Page-outs of rows that ended, in this window or the one before, and are still charged when `op` begins.
  std::vector<UnderWay> under_way(std::uint32_t op) const;

 private:
  struct PageOut {
    base::Bytes bytes;
    std::uint32_t begin, awaited;  // before these ops; `awaited` is counted on into the next window
  };

  std::vector<std::uint32_t> tickets_;  // by row
  std::vector<PageOut> page_outs_;      // by ticket - 1
  std::uint32_t ops_;
};

}  // namespace tensorpager::follow
