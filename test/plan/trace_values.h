// What the ops of a trace compute, as numbers: to compare a rewritten trace with the program.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "tensorpager/plan/rewriting.h"

namespace tensorpager::plan {

/// What each op of a trace computes, as a hash of its number in the program and of what it reads, which is what it
/// writes, too, unless it fills that. Returns, of each op that the program runs itself, what it had written and read.
using Values = std::map<std::uint32_t, std::size_t>;
inline Values values(const trace::Trace& trace, const std::vector<Rewriting::Entry>& entries,
                     std::span<const trace::StorageId> storages) {
  std::vector<std::size_t> held(trace.storages.size());
  for (std::size_t i = 0; i < held.size(); ++i) held[i] = i;
  Values found;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const trace::Op& op = trace.ops[i];
    std::size_t in = entries[i].op;
    const auto mix = [&](std::size_t value) { in = in * 0x9E3779B97F4A7C15ULL + (value ^ (value >> 29)); };
    for (const trace::StorageId id : op.reads) mix(held[trace::index(id)]);
    if (op.purity != trace::Purity::kFills) {
      for (const trace::StorageId id : op.writes) mix(held[trace::index(id)]);
    }
    for (const auto* list : {&op.writes, &op.births}) {
      for (const trace::StorageId id : *list)
        held[trace::index(id)] = in + (trace::index(storages[trace::index(id)]) + std::size_t{1}) * 31;
    }
    if (!entries[i].replayed) found[entries[i].op] = in;
  }
  return found;
}

inline Values values(const trace::Trace& trace) {
  std::vector<Rewriting::Entry> entries;
  std::vector<trace::StorageId> storages;
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) entries.push_back({i, false});
  for (std::uint32_t i = 0; i < trace.storages.size(); ++i) storages.push_back(trace::StorageId{i});
  return values(trace, entries, storages);
}

}  // namespace tensorpager::plan
