// Pages blocks out at random at op boundaries, and leaves transfers under way, so that tests meet what seldom happens.
// All calls are made with the pager's lock held.
#pragma once

#include <cstdint>
#include <random>

#include "tensorpager/pager/executor.h"
#include "tensorpager/pager/rebuilder.h"
#include "tensorpager/pager/states.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

class Fuzzer {
 public:
  /// At each op boundary.
  struct Tries {
    std::uint64_t evictions = 0;
    std::uint64_t drops = 0;
  };

  Fuzzer(std::uint64_t seed, Tries tries) : random_(seed), tries_(tries) {}

  void end_drops() { tries_.drops = 0; }
  /// The op of this index begins. A transfer that fails is counted as a failed action. `rebuilder`: null if nothing can
  /// be rebuilt.
  void op_begins(std::uint64_t op, const BlockTable& table, Transfers& transfers, const Executor& executor,
                 Rebuilder* rebuilder, Statistics& counts);

 private:
  Block& any_resident(const BlockTable& table) { return table.resident(random_() % table.residents()); }
  void drop_some(const BlockTable& table, Transfers& transfers, Rebuilder& rebuilder);
  void leave_transfers_under_way(const BlockTable& table, Transfers& transfers, const Executor& executor);

  std::mt19937_64 random_;
  Tries tries_;
};

}  // namespace tensorpager::pager
