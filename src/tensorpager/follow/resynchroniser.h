// Finds where in the plan a program is after a plan miss.
//
// An op that is not the expected one is a miss, and the plan waits for it to pass. If two ops in a row are found a
// little further on, by their names and sizes, or the first by its name and what it touches, or at the window's begin,
// the ops between were left out. If that is not near, no other place of the plan may agree with more of the last ops:
// else they are a repetition, a layer that the plan does not have, say. If several ops in a row are found in none of
// these ways, as all sizes differ, the names of the last ops say where they are.
//
// Ops that touch nothing are reported too, and most are not of the plan: one that is not expected is silent, and is a
// miss only once it makes something.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/names.h"
#include "tensorpager/follow/storage_map.h"

namespace tensorpager::follow {

class Resynchroniser {
 public:
  explicit Resynchroniser(const Agenda& agenda) : agenda_(agenda) {}

  /// An op begins, whatever it is.
  void note_op(const OpSignature& op);
  /// Returns where the op comes, which has begun and is not the one that is expected at `position`; nullopt if it is
  /// not found, or comes after no miss.
  std::optional<std::uint32_t> find(const OpSignature& op, std::uint32_t position) const;
  bool has_missed() const { return missed_.has_value(); }
  /// The plan's op that the missed one before probably was, by what it touched. If the next op agrees, it was.
  std::optional<std::uint32_t> likely() const { return likely_; }

  // What the op is; one of these follows `note_op`.
  void note_silent(const OpSignature& op) { silent_ = op; }
  void note_miss(OpSignature op, std::span<Block* const> touched, std::uint32_t position, const StorageMap& storages);
  void note_found(const OpSignature& op);
  /// The silent op has made something. Returns it.
  OpSignature silent() const { return *silent_; }
  /// An op that was found has ended, and was the plan's.
  void note_followed();
  /// What comes next is not related to what was.
  void reset();

 private:
  std::optional<std::uint32_t> find_by_names(std::uint32_t position) const;
  std::optional<std::uint32_t> find_by_arguments(const OpSignature& op, std::span<Block* const> touched,
                                                 std::uint32_t position, const StorageMap& storages) const;
  bool is_best_match(std::uint32_t at) const;
  template <typename Same>
  std::size_t matching_before(std::uint32_t at, Same same) const;

  /// The last ops that are remembered.
  static constexpr std::size_t kRecent = 16;
  std::size_t remembered() const { return std::min<std::size_t>(noted_, kRecent); }
  const OpSignature& recent(std::size_t ops_ago) const { return recent_[(noted_ - 1 - ops_ago) % kRecent]; }

  const Agenda& agenda_;
  std::array<OpSignature, kRecent> recent_;  // the last ops that touched something; the oldest is replaced
  std::uint64_t noted_ = 0;                  // how many there were
  std::optional<OpSignature> missed_;        // the op before, if it was not expected
  std::optional<OpSignature> silent_;        // the op before, or under way, if it is silent
  std::optional<std::uint32_t> likely_;
  std::size_t misses_in_a_row_ = 0;
};

}  // namespace tensorpager::follow
