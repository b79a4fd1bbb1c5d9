// What a pager reports, for planning, of its own work so far.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

/// Counts of evictions and followed ops; cheaper than all statistics.
struct Account {
  std::uint64_t page_outs = 0;
  std::uint64_t followed_ops = 0;
  std::uint64_t plan_misses = 0;
  double paging_seconds = 0;  // as Statistics has it
};

/// Costs of transfers: on their links, and in CPU time of ops. The latter is 0 on a device, whose ops do not wait for
/// the host.
struct TransferCosts {
  struct Handling {
    double seconds = 0;
    std::uint64_t blocks = 0;

    double each() const { return blocks > 0 ? seconds / static_cast<double>(blocks) : 0; }
    Handling since(const Handling& before) const { return {seconds - before.seconds, blocks - before.blocks}; }
  };
  transfer::Queues::Rates rates = {};
  Handling page_out = {};  // and drops: a block leaves in the same way
  Handling page_in = {};   // and rebuilds
  double rest = 0;  // other seconds of paging, without stalls and replays: a plan's bookkeeping, births out of pieces

  double rest_each() const {
    return std::max(rest, 0.0) / std::max(1.0, static_cast<double>(page_out.blocks + page_in.blocks));
  }
  /// The difference; the rates are the newest.
  TransferCosts since(const TransferCosts& before) const {
    return {rates, page_out.since(before.page_out), page_in.since(before.page_in), rest - before.rest};
  }
};

}  // namespace tensorpager::pager
