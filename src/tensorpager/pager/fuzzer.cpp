#include "tensorpager/pager/fuzzer.h"

#include <exception>

namespace tensorpager::pager {

void Fuzzer::op_begins(std::uint64_t op, const BlockTable& table, Transfers& transfers, const Executor& executor,
                       Rebuilder* rebuilder, Statistics& counts) {
  try {
    for (std::uint64_t i = 0; i < tries_.evictions && table.residents() > 0; ++i)
      counts.fuzz_page_outs += transfers.page_out(any_resident(table)) ? 1 : 0;
    if (rebuilder != nullptr) drop_some(table, transfers, *rebuilder);
    constexpr std::uint64_t kOpsOfTransfers = 4;  // so that fuzzing takes little longer
    if (op % kOpsOfTransfers == 0) leave_transfers_under_way(table, transfers, executor);
  } catch (const std::exception&) {
    ++counts.failed_actions;  // the op did not ask for it
  }
}

void Fuzzer::drop_some(const BlockTable& table, Transfers& transfers, Rebuilder& rebuilder) {
  for (std::uint64_t i = 0; i < tries_.drops && table.residents() > 0; ++i) {
    transfers.drop(any_resident(table), rebuilder);
  }
}

/// A page-out and a page-in that nobody waits for.
void Fuzzer::leave_transfers_under_way(const BlockTable& table, Transfers& transfers, const Executor& executor) {
  if (table.residents() > 0) transfers.begin_page_out(any_resident(table));
  if (table.absent().empty()) return;
  Block& block = *table.absent()[random_() % table.absent().size()];
  if (block.is_arriving() || block.is_dropped() || !table.ledger().fits(block.charged)) return;
  if (const auto place = executor.find_free_place({.bytes = block.charged}))
    transfers.begin_page_in(block, *place, Access::kRead);
}

}  // namespace tensorpager::pager
