// Pages blocks out at random at op boundaries, and leaves transfers under way, so that tests meet what seldom happens.
// All calls are made with the pager's lock held.
#pragma once

#include <cstdint>
#include <random>

#include "tensorpager/pager/executor.h"
#include "tensorpager/pager/states.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

class Fuzzer {
 public:
  /// `evictions`: tries at each op boundary.
  Fuzzer(std::uint64_t seed, std::uint64_t evictions) : random_(seed), evictions_(evictions) {}

  /// The op of this index begins. A transfer that fails is counted as a failed action.
  void op_begins(std::uint64_t op, const BlockTable& table, Transfers& transfers, const Executor& executor,
                 Statistics& counts);

 private:
  Block& any_resident(const BlockTable& table) { return table.resident(random_() % table.residents()); }
  void leave_transfers_under_way(const BlockTable& table, Transfers& transfers, const Executor& executor);

  std::mt19937_64 random_;
  std::uint64_t evictions_;
};

}  // namespace tensorpager::pager
