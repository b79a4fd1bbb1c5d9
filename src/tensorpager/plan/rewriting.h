// Recomputation as a rewriting of a trace. A replay runs an op of the window again before another one, with the
// arguments that it had. In the rewritten trace replays are ops like others, and a storage that is rebuilt has several
// lives, each a storage of its own: what follows (eviction, schedule, packing, timing, validator, simulator) needs no
// second concept.
//
// What is meant follows from the replays alone. A storage is at version v after v ops have written it, its birth
// included. An op uses, of the newest copies of a storage, the one that is at the version which it had for that op in
// the window. A copy is dropped after its last use if a newer one has taken its place, or if the storage is dead. What
// a replay makes besides what it keeps is temporary.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensorpager/base/result.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

/// Where an op or a storage of a rewritten trace comes from.
struct Rewriting {
  struct Entry {
    std::uint32_t op;  // of the trace that was rewritten
    bool replayed;
  };

  trace::Trace trace;
  std::vector<Entry> entries;              // by op of `trace`
  std::vector<trace::StorageId> storages;  // by storage of `trace`: that of which it is a copy
  std::vector<bool> dies_with_program;     // by storage of `trace`: the program frees it, or nobody does
};

struct IllegalReplay {
  std::uint32_t replay;  // its number
  std::string what;
};

/// Whether a replay of the op works on a clone of this storage, whatever is in it: one that it writes, and that lives
/// over the window's end.
bool is_cloned(const trace::Trace& trace, const trace::Op& op, trace::StorageId id);

/// Rewrites a trace. The first copy of a storage keeps its number, the others come after all storages. Returns the
/// first replay that is not possible:
/// - its op is not before the one that it is to run before, or the replays are out of order;
/// - its op is not pure, or writes a storage that lives over the window's end;
/// - an argument is not there as it was: dead and not rebuilt, or written since;
/// - it is to keep a storage that it neither creates nor fills.
base::Result<Rewriting, IllegalReplay> rewrite(const trace::Trace& trace, std::span<const Replay> replays);

/// The trace that the plan's rows are of. Throws InvalidArgument with the first replay that is not possible.
trace::Trace rewritten(const trace::Trace& trace, const Plan& plan);

/// What is wrong with a replay, for messages.
std::string describe(const IllegalReplay& illegal, std::span<const Replay> replays);

}  // namespace tensorpager::plan
