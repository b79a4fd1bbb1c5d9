// Which ops write each storage of a trace, and so the version that it has for an op: the number of ops before that
// wrote it. An op that makes a storage writes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

/// Whether the op makes this storage from nothing: it creates it, or fills it and does not read it, as ops inside it
/// may.
bool is_made_anew(const trace::Op& op, trace::StorageId id);

class Versions {
 public:
  explicit Versions(const trace::Trace& trace);

  std::span<const std::uint32_t> writers(trace::StorageId id) const;
  /// The writers that must run again to make this version: from the last of them that needs none before it, as it
  /// creates the storage or fills it, to the one that made it.
  std::span<const std::uint32_t> makers(trace::StorageId id, std::uint32_t version) const;
  /// The version that the op finds.
  std::uint32_t before(std::uint32_t op, trace::StorageId id) const;
  /// The last op that finds this version, if only because the storage is written or freed there; the number of ops if
  /// the version is there until the window's end.
  std::uint32_t until(trace::StorageId id, std::uint32_t version) const;

 private:
  std::vector<std::uint32_t> writers_;
  std::vector<bool> is_first_;         // by element of writers_: the op needs none of those before it
  std::vector<std::size_t> begins_;    // by storage; then the end
  std::vector<std::uint32_t> deaths_;  // the number of ops if there is none
  std::uint32_t ops_;
};

}  // namespace tensorpager::plan
