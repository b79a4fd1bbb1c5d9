// Reads what a pager counts. Each function takes the lock for itself.
#pragma once

#include <cstddef>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/core.h"
#include "tensorpager/pager/costs.h"
#include "tensorpager/pager/curve.h"
#include "tensorpager/pager/statistics.h"

namespace tensorpager::pager {

class Accounts {
 public:
  /// It must outlive this.
  explicit Accounts(Core& core) : core_(core) {}

  Statistics statistics();
  Account account();
  TransferCosts transfer_costs();
  base::Bytes charged();
  std::vector<Curve::Point> curve();

  /// What is cheap to ask at any time. `recent_peak`: the most since `forget_peak`, which changes no statistics.
  struct Charges {
    base::Bytes budget, now, recent_peak;
    std::size_t live_blocks = 0;
  };
  Charges charges();
  void forget_peak();

 private:
  double paging_seconds() const;

  Core& core_;
};

}  // namespace tensorpager::pager
