#include "tensorpager/follow/agenda.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/plan/versions.h"

namespace tensorpager::follow {

using trace::index;

Agenda::Rewritten Agenda::rewrite(const trace::Trace& trace, Plan plan, std::vector<OpSignature> signatures) {
  auto rewriting = plan::rewrite(trace, plan.replays);
  if (!rewriting) throw base::InvalidArgument("plan: " + plan::describe(rewriting.error(), plan.replays));
  return {std::move(plan), std::move(rewriting.value()), std::move(signatures)};
}

Agenda::Agenda(const trace::Trace& trace, Plan plan, std::vector<OpSignature> signatures)
    : Agenda(rewrite(trace, std::move(plan), std::move(signatures))) {}

Agenda::Agenda(Rewritten rewritten)
    : plan_(std::move(rewritten.plan)),
      replays_(plan_, rewritten.rewriting),
      page_outs_(plan_),
      liveness_(rewritten.rewriting.trace),
      resident_rows_(plan_) {
  const trace::Trace& trace = rewritten.rewriting.trace;
  if (plan_.ops != trace.ops.size())
    throw base::InvalidArgument("the plan is for " + std::to_string(plan_.ops) + " ops and the trace has " +
                                std::to_string(trace.ops.size()));
  for (const Row& row : plan_.rows) {
    if (row.storage != kTemporary && index(row.storage) >= trace.storages.size())
      throw base::InvalidArgument("the plan has storage " + std::to_string(index(row.storage)) +
                                  ", which the trace has not");
  }
  for (const trace::Storage& storage : trace.storages) {
    sizes_.push_back(storage.bytes);
    identities_.push_back(storage.identity);
  }
  for (std::uint32_t i = 0; i < storages(); ++i) {
    if (!is_entry(StorageId{i})) continue;
    entries_.push_back(StorageId{i});
    if (identities_[i]) identified_.push_back(StorageId{i});
  }
  std::ranges::stable_sort(identified_, {}, [&](StorageId id) { return *identity(id); });
  for (std::uint32_t at = 0; at < trace.ops.size(); ++at) {
    add_op(rewritten, at);
    add_ends(trace.ops[at], rewritten.rewriting.dies_with_program);
  }
  std::ranges::sort(renewed_);
  if (replays_.any())
    for (const std::uint32_t at : replays_.program_ops()) program_signatures_.push_back(signatures_[at]);
  add_rows();
}

void Agenda::add_op(const Rewritten& rewritten, std::uint32_t at) {
  const trace::Trace& trace = rewritten.rewriting.trace;
  const trace::Op& op = trace.ops[at];
  const bool is_replay = replays_.is_replay(at);
  // No op of the program's is taken for a replay, and none that touches only small storages for one of no plan.
  OpSignature signature{.name = name_hash(is_replay ? "replay of " + op.name : op.name)};
  if (is_replay) signature.add(base::kMinPagedBytes);
  std::vector<StorageId> arguments = op.reads;
  arguments.insert(arguments.end(), op.writes.begin(), op.writes.end());
  std::ranges::sort(arguments);
  const auto repeated = std::ranges::unique(arguments);
  arguments.erase(repeated.begin(), repeated.end());
  for (const StorageId id : arguments)
    if (std::ranges::find(op.renews, id) == op.renews.end()) signature.add(trace.storages[index(id)].bytes);
  if (!is_replay && !rewritten.signatures.empty()) signature = rewritten.signatures[rewritten.rewriting.entries[at].op];
  signatures_.push_back(signature);
  for (const StorageId id : arguments)
    if (liveness_.life(id).pageable) arguments_.add(id);
  arguments_.end_op();
  for (const StorageId id : op.writes)
    if (is_entry(id)) entries_written_.add(id);
  entries_written_.end_op();
  for (const StorageId id : op.renews) renewed_.emplace_back(at, id);
  for (const StorageId id : op.births)
    if (liveness_.life(id).pageable) births_.add({id, trace.storages[index(id)].bytes});
  births_.end_op();
  for (const auto* list : {&op.births, &op.writes})
    for (const StorageId id : *list)
      if (liveness_.life(id).pageable && plan::is_made_anew(op, id)) made_anew_.add(id);
  made_anew_.end_op();
}

void Agenda::add_ends(const trace::Op& op, const std::vector<bool>& dies_with_program) {
  for (const StorageId id : op.deaths)
    if (liveness_.life(id).pageable) (dies_with_program[index(id)] ? deaths_ : drops_).add(id);
  deaths_.end_op();
  drops_.end_op();
}

void Agenda::add_rows() {
  beginning_ = rows_by([](const Row& row) { return row.begin; });
  leaving_ = rows_by([](const Row& row) { return row.end; });
  rows_of_.resize(storages());
  born_.resize(plan_.ops);
  temporary_.resize(plan_.ops);
  for (std::uint32_t i = 0; i < plan_.rows.size(); ++i) {
    const Row& row = plan_.rows[i];
    if (row.storage != kTemporary) rows_of_[index(row.storage)].push_back(i);
    if (row.fill == Fill::kPageIn && row.need == plan_.ops) arriving_at_end_.push_back(i);
    if (row.fill != Fill::kBorn) continue;
    born_[row.begin] += row.bytes;
    if (row.storage == kTemporary) temporary_[row.begin] += row.bytes;
  }
}

/// Those of one op in the order of the table.
template <typename OpOf>
PerOp<std::uint32_t> Agenda::rows_by(OpOf op_of) const {
  std::vector<std::uint32_t> rows(plan_.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t i) { return op_of(row(i)); });
  PerOp<std::uint32_t> by_op;
  auto next = rows.begin();
  for (std::uint32_t op = 0; op <= plan_.ops; ++op) {
    for (; next != rows.end() && op_of(row(*next)) == op; ++next) by_op.add(*next);
    by_op.end_op();
  }
  return by_op;
}

std::span<const StorageId> Agenda::entries_of(std::uint64_t identity) const {
  const auto identity_of = [&](StorageId id) { return *identities_[index(id)]; };
  return std::ranges::equal_range(identified_, identity, {}, identity_of);
}

const Row* Agenda::row_at(StorageId id, std::uint32_t op) const {
  for (const std::uint32_t i : rows_of_[index(id)])
    if (row(i).begin <= op && op < row(i).end) return &row(i);
  return nullptr;
}

const Row* Agenda::born_row(StorageId id, std::uint32_t op) const {
  for (const std::uint32_t i : beginning(op))
    if (row(i).fill == Fill::kBorn && row(i).storage == id) return &row(i);
  return nullptr;
}

std::optional<std::uint32_t> Agenda::next_use(StorageId id, std::uint32_t op) const {
  const std::span<const Use> uses = liveness_.uses(id);
  const Life& life = liveness_.life(id);
  const auto is_birth = [&](const Use& use) { return life.birth == use.op; };
  const auto next = std::ranges::upper_bound(uses, op, {}, &Use::op);
  if (next != uses.end()) return is_birth(*next) ? std::nullopt : std::optional(next->op - op);
  if (uses.empty() || !life.entry || is_birth(uses.front())) return std::nullopt;
  return uses.front().op + ops() - op;
}

}  // namespace tensorpager::follow
