#include "tensorpager/follow/agenda.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/plan/timing.h"
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
      liveness_(rewritten.rewriting.trace),
      copy_of_(std::move(rewritten.rewriting.storages)),
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
  birth_begins_.push_back(0), death_begins_.push_back(0), drop_begins_.push_back(0), made_begins_.push_back(0);
  std::uint32_t replays = 0;
  for (std::uint32_t at = 0; at < trace.ops.size(); ++at) {
    const trace::Op& op = trace.ops[at];
    const bool is_replay = rewritten.rewriting.entries[at].replayed;
    replays_.push_back(is_replay ? replays++ : kNoReplay);
    if (!is_replay) program_ops_.push_back(at);
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
    const bool is_given = !is_replay && !rewritten.signatures.empty();
    signatures_.push_back(is_given ? rewritten.signatures[program_ops_.size() - 1] : signature);
    std::erase_if(arguments, [&](StorageId id) { return !liveness_.life(id).pageable; });
    arguments_.push_back(std::move(arguments));
    auto& entries = entries_written_.emplace_back();
    std::ranges::copy_if(op.writes, std::back_inserter(entries), [&](StorageId id) { return is_entry(id); });
    for (const StorageId id : op.renews) renewed_.emplace_back(at, id);
    for (const StorageId id : op.births)
      if (liveness_.life(id).pageable) births_.push_back({id, trace.storages[index(id)].bytes});
    birth_begins_.push_back(static_cast<std::uint32_t>(births_.size()));
    for (const auto* list : {&op.births, &op.writes})
      std::ranges::copy_if(*list, std::back_inserter(made_anew_),
                           [&](StorageId id) { return liveness_.life(id).pageable && plan::is_made_anew(op, id); });
    made_begins_.push_back(static_cast<std::uint32_t>(made_anew_.size()));
    add_ends(op, rewritten.rewriting.dies_with_program);
  }
  std::ranges::sort(renewed_);
  note_replays();
  sort_rows(beginning_, beginning_begins_, [](const Row& row) { return row.begin; });
  sort_rows(leaving_, leaving_begins_, [](const Row& row) { return row.end; });
  rows_of_.resize(trace.storages.size());
  for (std::uint32_t i = 0; i < plan_.rows.size(); ++i)
    if (row(i).storage != kTemporary) rows_of_[index(row(i).storage)].push_back(i);
  for (std::uint32_t i = 0; i < plan_.rows.size(); ++i)
    if (row(i).fill == Fill::kPageIn && row(i).need == plan_.ops) arriving_at_end_.push_back(i);
  born_.resize(plan_.ops);
  temporary_.resize(plan_.ops);
  for (const Row& row : plan_.rows) {
    if (row.fill != Fill::kBorn) continue;
    born_[row.begin] += row.bytes;
    if (row.storage == kTemporary) temporary_[row.begin] += row.bytes;
  }
  tickets_.resize(plan_.rows.size());
  page_outs_ = page_outs_of(plan_.rows);
  awaited_ = release_ops(plan_.rows, plan_.ops);
  for (std::uint32_t ticket = 1; ticket <= page_outs_.size(); ++ticket) tickets_[page_outs_[ticket - 1]] = ticket;
}

void Agenda::add_ends(const trace::Op& op, const std::vector<bool>& dies_with_program) {
  for (const StorageId id : op.deaths)
    if (liveness_.life(id).pageable) (dies_with_program[index(id)] ? deaths_ : drops_).push_back(id);
  death_begins_.push_back(static_cast<std::uint32_t>(deaths_.size()));
  drop_begins_.push_back(static_cast<std::uint32_t>(drops_.size()));
}

void Agenda::note_replays() {
  is_replayed_later_.resize(ops());
  for (const plan::Replay& replay : plan_.replays) is_replayed_later_[program_ops_[replay.op]] = true;
  if (!has_replays()) return;
  for (const std::uint32_t at : program_ops_) program_signatures_.push_back(signatures_[at]);
}

std::vector<std::uint32_t> Agenda::kept_by(std::uint32_t replay) const {
  const auto made = made_anew(replayed_by(replay));
  const std::vector<StorageId>& keeps = plan_.replays[replays_[replay]].keeps;
  std::vector<std::uint32_t> kept;
  for (std::uint32_t k = 0; k < made.size(); ++k)
    if (std::ranges::find(keeps, copy_of_[index(made[k])]) != keeps.end()) kept.push_back(k);
  return kept;
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

std::vector<Agenda::PageOut> Agenda::under_way(std::uint32_t op) const {
  std::vector<PageOut> page_outs;
  for (std::size_t i = 0; i < page_outs_.size(); ++i) {
    const Row& left = row(page_outs_[i]);
    const bool is_of_this_window = left.end <= op;
    const std::uint32_t now = is_of_this_window ? op : op + ops();
    if (now < awaited_[i]) page_outs.push_back({left.bytes, awaited_[i] - (is_of_this_window ? 0 : ops())});
  }
  return page_outs;
}

template <typename OpOf>
void Agenda::sort_rows(std::vector<std::uint32_t>& rows, std::vector<std::uint32_t>& begins, OpOf op_of) const {
  rows.resize(plan_.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t i) { return op_of(row(i)); });
  begins.assign(plan_.ops + 2, 0);
  for (const std::uint32_t i : rows) ++begins[op_of(row(i)) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
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
