#include "tensorpager/fit/composition.h"

#include <vector>

namespace tensorpager::fit {
namespace {

/// Which ops use a storage in the window.
struct Uses {
  bool by_optimizer = false;
  bool by_others = false;
  bool written_by_optimizer = false;
  bool made_in_backward = false;
  bool made_in_optimizer = false;
};

std::vector<Uses> uses_of(const trace::Trace& trace) {
  std::vector<Uses> uses(trace.storages.size());
  for (const trace::Op& op : trace.ops) {
    const auto note = [&](trace::StorageId id, bool written) {
      Uses& one = uses[trace::index(id)];
      (op.optimizer ? one.by_optimizer : one.by_others) = true;
      one.written_by_optimizer |= op.optimizer && written;
    };
    for (const trace::StorageId id : op.reads) note(id, false);
    for (const trace::StorageId id : op.writes) note(id, true);
    for (const trace::StorageId id : op.births) {
      note(id, false);
      uses[trace::index(id)].made_in_backward = op.backward;
      uses[trace::index(id)].made_in_optimizer = op.optimizer;
    }
  }
  return uses;
}

base::Bytes& part_of(Composition& all, const trace::Storage& storage, const Uses& uses) {
  if (!storage.entry && uses.made_in_optimizer) return all.temporaries;
  if (storage.name == "parameter") return all.parameters;
  if (storage.name == "gradient") return all.gradients;
  if (storage.name == "optimizer") return all.optimizer_state;
  if (uses.made_in_backward) return uses.by_optimizer ? all.gradients : all.backward;
  if (!storage.entry) return all.activations;
  if (!uses.by_optimizer) return uses.by_others ? all.others : all.workspaces;
  if (!uses.by_others) return all.optimizer_state;
  return uses.written_by_optimizer ? all.parameters : all.others;
}

}  // namespace

Composition composition_at_peak(const trace::Trace& trace, const plan::Liveness& liveness) {
  Composition all;
  all.op = liveness.need_op();
  const std::vector<Uses> uses = uses_of(trace);
  std::vector<bool> alive(trace.storages.size());
  for (std::size_t i = 0; i < trace.storages.size(); ++i) alive[i] = trace.storages[i].entry;
  for (std::uint32_t op = 0; op <= all.op; ++op) {
    for (const trace::StorageId id : trace.ops[op].births) alive[trace::index(id)] = true;
    if (op == all.op) break;
    for (const trace::StorageId id : trace.ops[op].deaths) alive[trace::index(id)] = false;
  }
  base::Bytes listed;
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    if (!alive[i]) continue;
    const base::Bytes charged = base::round_up(trace.storages[i].bytes, trace.granule);
    part_of(all, trace.storages[i], uses[i]) += charged;
    listed += charged;
  }
  // Small storages are counted at their peak, at whichever op that is.
  if (liveness.need() > listed) all.temporaries += liveness.need() - listed;
  return all;
}

}  // namespace tensorpager::fit
