#include "tensorpager/plan/rewriting.h"

#include <algorithm>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/plan/versions.h"

namespace tensorpager::plan {
namespace {

using trace::index;
using trace::Op;
using trace::Purity;
using trace::StorageId;

bool has(const std::vector<StorageId>& list, StorageId id) { return std::ranges::find(list, id) != list.end(); }

class Rewriter {
 public:
  explicit Rewriter(const trace::Trace& trace)
      : trace_(trace), versions_(trace), copies_(trace.storages.size()), version_(trace.storages.size()) {
    made_.trace = {.granule = trace.granule, .slab = trace.slab, .storages = trace.storages, .ops = {}};
    lives_.resize(trace.storages.size());
    for (std::uint32_t i = 0; i < trace.storages.size(); ++i) {
      made_.storages.push_back(StorageId{i});
      if (trace.storages[i].entry) copies_[i].push_back({StorageId{i}, 0});
    }
  }

  base::Result<Rewriting, IllegalReplay> run(std::span<const Replay> replays) {
    const std::size_t ops = trace_.ops.size();
    made_.trace.ops.reserve(ops + replays.size());
    made_.entries.reserve(ops + replays.size());
    std::uint32_t next = 0;
    for (std::uint32_t op = 0; op < ops; ++op) {
      for (; next < replays.size() && replays[next].before <= op; ++next) {
        if (std::string wrong = replay(replays[next], op); !wrong.empty()) return IllegalReplay{next, std::move(wrong)};
      }
      run_for_the_program(op);
    }
    if (next < replays.size()) return IllegalReplay{next, "it is to run before no op of the window"};
    for (std::uint32_t i = 0; i < lives_.size(); ++i) {
      if (lives_[i].ends == Ends::kAfterLastUse) made_.trace.ops[lives_[i].last_use].deaths.push_back(StorageId{i});
    }
    for (const Life& life : lives_) made_.dies_with_program.push_back(life.ends == Ends::kWithTheProgram);
    return std::move(made_);
  }

 private:
  struct Copy {
    StorageId id;  // in the rewritten trace
    std::uint32_t version;
  };
  enum class Ends : std::uint8_t { kWithTheProgram, kAfterLastUse };
  /// Of a storage of the rewritten trace.
  struct Life {
    Ends ends = Ends::kWithTheProgram;
    std::uint32_t last_use = 0;
  };

  /// Returns the newest copy at this version, or null.
  Copy* find(StorageId id, std::uint32_t version) {
    auto& its = copies_[index(id)];
    const auto found =
        std::find_if(its.rbegin(), its.rend(), [&](const Copy& copy) { return copy.version == version; });
    return found == its.rend() ? nullptr : &*found;
  }

  std::uint32_t now() const { return static_cast<std::uint32_t>(made_.trace.ops.size()); }

  StorageId use(const Copy& copy) {
    lives_[index(copy.id)].last_use = now();
    return copy.id;
  }

  static Op without_storages(Op op) {
    for (auto* list : {&op.reads, &op.writes, &op.births, &op.deaths, &op.renews}) list->clear();
    return op;
  }

  void run_for_the_program(std::uint32_t number) {
    const Op& was = trace_.ops[number];
    Op op = without_storages(was);
    for (const StorageId id : was.reads) op.reads.push_back(use(*find(id, version_[index(id)])));
    for (const StorageId id : was.writes) {
      Copy& copy = *find(id, version_[index(id)]++);
      ++copy.version;
      op.writes.push_back(use(copy));
      if (std::ranges::find(was.renews, id) != was.renews.end()) op.renews.push_back(op.writes.back());
    }
    for (const StorageId id : was.births) {
      copies_[index(id)].push_back({id, ++version_[index(id)]});
      lives_[index(id)].ends = trace_.storages[index(id)].entry ? Ends::kWithTheProgram : Ends::kAfterLastUse;
      op.births.push_back(use(copies_[index(id)].back()));
    }
    for (const StorageId id : was.deaths) {
      const Copy freed = *find(id, version_[index(id)]);
      lives_[index(freed.id)].ends = Ends::kWithTheProgram;
      op.deaths.push_back(freed.id);
      // Those whose place it has taken ended with their last use.
      std::erase_if(copies_[index(id)], [&](const Copy& copy) { return copy.version == freed.version; });
    }
    made_.trace.ops.push_back(std::move(op));
    made_.entries.push_back({number, false});
  }

  StorageId add_storage(StorageId of) {
    made_.trace.storages.push_back(trace_.storages[index(of)]);
    made_.trace.storages.back().entry = false;
    made_.trace.storages.back().identity.reset();
    made_.storages.push_back(of);
    lives_.push_back({.ends = Ends::kAfterLastUse, .last_use = now()});
    return StorageId{static_cast<std::uint32_t>(lives_.size() - 1)};
  }

  bool is_entry(StorageId id) const { return trace_.storages[index(id)].entry; }
  static std::string name(StorageId id) { return "storage " + std::to_string(index(id)); }

  /// Returns what is wrong.
  std::string replay(const Replay& replay, std::uint32_t op) {
    if (replay.before != op) return "it is out of order";
    if (replay.op >= op) return "it is to run before the op that it replays";
    const Op& was = trace_.ops[replay.op];
    if (was.purity == Purity::kNever) return "op " + std::to_string(replay.op) + " (" + was.name + ") is not pure";
    for (const StorageId id : replay.keeps) {
      if (!is_made_anew(was, id)) return "it keeps " + name(id) + ", which it does not make";
      if (is_entry(id)) return "it keeps " + name(id) + ", which lives over the window's end";
    }
    Op made = without_storages(was);
    made.rebuilds = static_cast<std::uint32_t>(replay.keeps.size());
    const auto make_anew = [&](StorageId id) {
      if (!has(replay.keeps, id)) {
        made.temporary += base::round_up(trace_.storages[index(id)].bytes, trace_.granule);
        return;
      }
      made.births.push_back(add_storage(id));
      copies_[index(id)].push_back({made.births.back(), versions_.before(replay.op, id) + 1});
    };
    for (const StorageId id : was.reads) {
      const bool cloned = is_cloned(trace_, was, id);
      Copy* copy = find(id, cloned ? version_[index(id)] : versions_.before(replay.op, id));
      if (copy == nullptr) return name(id) + ", which it reads, is not there as it was";
      made.reads.push_back(use(*copy));
    }
    for (const StorageId id : was.writes) {
      if (is_entry(id)) {
        if (!is_cloned(trace_, was, id)) return "it writes " + name(id) + ", which lives over the window's end";
        made.temporary += base::round_up(trace_.storages[index(id)].bytes, trace_.granule);
        continue;
      }
      if (is_made_anew(was, id)) {
        make_anew(id);
        continue;
      }
      Copy* copy = find(id, versions_.before(replay.op, id));
      if (copy == nullptr) return name(id) + ", which it writes, is not there as it was";
      ++copy->version;
      made.writes.push_back(use(*copy));
    }
    for (const StorageId id : was.births) make_anew(id);
    made_.trace.ops.push_back(std::move(made));
    made_.entries.push_back({replay.op, true});
    return {};
  }

  const trace::Trace& trace_;
  Versions versions_;
  std::vector<std::vector<Copy>> copies_;  // by storage of the trace; the newest last
  std::vector<std::uint32_t> version_;     // by storage of the trace: that which the program has reached
  std::vector<Life> lives_;                // by storage of the rewritten trace
  Rewriting made_;
};

}  // namespace

bool is_cloned(const trace::Trace& trace, const trace::Op& op, StorageId id) {
  return op.purity == Purity::kScratch && trace.storages[index(id)].entry && has(op.writes, id);
}

base::Result<Rewriting, IllegalReplay> rewrite(const trace::Trace& trace, std::span<const Replay> replays) {
  return Rewriter(trace).run(replays);
}

trace::Trace rewritten(const trace::Trace& trace, const Plan& plan) {
  if (plan.replays.empty()) return trace;
  auto done = rewrite(trace, plan.replays);
  if (!done) throw base::InvalidArgument("plan: " + describe(done.error(), plan.replays));
  return std::move(done.value().trace);
}

std::string describe(const IllegalReplay& illegal, std::span<const Replay> replays) {
  const Replay& replay = replays[illegal.replay];
  return "replay " + std::to_string(illegal.replay) + " (of op " + std::to_string(replay.op) + " before op " +
         std::to_string(replay.before) + "): " + illegal.what;
}

}  // namespace tensorpager::plan
