#include "tensorpager/follow/resynchroniser.h"

#include <algorithm>
#include <functional>

namespace tensorpager::follow {

namespace {

/// Ops that may be left out at one time; a program that leaves out more is found again at the window's begin.
constexpr std::uint32_t kFurthest = 64;
/// Within so many ops, two ops in a row that agree are enough.
constexpr std::uint32_t kNear = 3;
/// Of those, so many must agree if only names do.
constexpr std::size_t kFewestNames = 4;

bool has_same_name(const OpSignature& one, const OpSignature& other) { return one.name == other.name; }

}  // namespace

void Resynchroniser::note_op(const OpSignature& op) {
  if (op.sizes == 0) return;
  recent_[noted_++ % kRecent] = op;
}

void Resynchroniser::note_miss(OpSignature op, std::span<Block* const> touched, std::uint32_t position,
                               const StorageMap& storages) {
  ++misses_in_a_row_;
  missed_ = op;
  silent_.reset();
  likely_ = find_by_arguments(op, touched, position, storages);
}

void Resynchroniser::note_found(const OpSignature& op) {
  silent_.reset();
  likely_.reset();
  if (op.sizes != 0) missed_.reset();
}

void Resynchroniser::note_followed() {
  missed_.reset();
  misses_in_a_row_ = 0;
}

void Resynchroniser::reset() {
  noted_ = 0;
  missed_.reset();
  silent_.reset();
  likely_.reset();
  misses_in_a_row_ = 0;
}

/// Within the next few ops, or at the window's begin.
std::optional<std::uint32_t> Resynchroniser::find(const OpSignature& op, std::uint32_t position) const {
  if (!missed_ && !silent_) return std::nullopt;
  const auto comes_at = [&](std::uint32_t at) {
    const OpSignature& before = agenda_.signature(at - 1);
    return agenda_.signature(at) == op && (before == missed_ || before == silent_);
  };
  const std::uint32_t end = std::min(agenda_.ops(), position + kFurthest);
  for (std::uint32_t at = position + 1; at < end; ++at)
    if (comes_at(at) && (at - position <= kNear || is_best_match(at))) return at;
  if (agenda_.ops() > 1 && comes_at(1) && is_best_match(1)) return 1;
  if (likely_ && *likely_ + 1 < agenda_.ops() && agenda_.signature(*likely_ + 1) == op) return *likely_ + 1;
  return find_by_names(position);
}

/// Counts how many of the last ops the plan has one after the other up to `at`. Ops that touch nothing do not count.
template <typename Same>
std::size_t Resynchroniser::matching_before(std::uint32_t at, Same same) const {
  std::size_t count = 0;
  for (std::uint32_t i = 0, op = at; i < agenda_.ops(); ++i, op = (op == 0 ? agenda_.ops() : op) - 1) {
    const OpSignature& signature = agenda_.signature(op);
    if (signature.sizes == 0) continue;
    if (count == remembered() || !same(recent(count), signature)) break;
    ++count;
  }
  return count;
}

/// For windows with varying sizes, after some ops in a row that were not found. Returns the nearest place whose last
/// ops have the names of the program's last ops, more of them than at any near place behind: there they would be a
/// repetition, a step over time, say.
std::optional<std::uint32_t> Resynchroniser::find_by_names(std::uint32_t position) const {
  if (misses_in_a_row_ < kFewestNames - 1) return std::nullopt;
  const std::uint32_t end = std::min(agenda_.ops(), position + kFurthest);
  std::size_t most = kFewestNames - 1;
  for (std::uint32_t at = position - std::min(position, kFurthest); at < position; ++at)
    most = std::max(most, matching_before(at, &has_same_name));
  std::optional<std::uint32_t> best;
  for (std::uint32_t at = position + 1; at < end; ++at) {
    const std::size_t matching = matching_before(at, &has_same_name);
    if (matching > most) most = matching, best = at;
  }
  return best;
}

/// Returns where an op of this name comes soon that uses nothing of the plan's but what this one touches; nullopt if
/// there is none.
std::optional<std::uint32_t> Resynchroniser::find_by_arguments(const OpSignature& op, std::span<Block* const> touched,
                                                               std::uint32_t position,
                                                               const StorageMap& storages) const {
  const auto is_known = [&](StorageId id) { return storages.block_of(id) != nullptr; };
  const auto may_be_touched = [&](StorageId id) {
    return !is_known(id) || std::ranges::find(touched, storages.block_of(id)) != touched.end();
  };
  const std::uint32_t end = std::min(agenda_.ops(), position + kFurthest);
  for (std::uint32_t at = position + 1; at < end; ++at) {
    if (agenda_.signature(at).name != op.name) continue;
    const std::span<const StorageId> arguments = agenda_.arguments(at);
    if (std::ranges::any_of(arguments, is_known) && std::ranges::all_of(arguments, may_be_touched)) return at;
  }
  return std::nullopt;
}

/// Whether no other place of the plan agrees with more of the last ops.
bool Resynchroniser::is_best_match(std::uint32_t at) const {
  const std::size_t here = matching_before(at, std::equal_to());
  const std::uint64_t name = agenda_.signature(at).name;
  for (std::uint32_t other = 0; other < agenda_.ops(); ++other)
    if (agenda_.signature(other).name == name && matching_before(other, std::equal_to()) > here) return false;
  return true;
}

}  // namespace tensorpager::follow
