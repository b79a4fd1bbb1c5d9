// Which blocks the storages of a plan are: each storage is at most one block, and each block at most one storage.
//
// What an op makes is bound when it ends (BirthMatcher), what is alive between windows before the first one. A storage
// without a block gets one at an op that touches an unknown block of its size. A block that an op uses instead of a
// storage's is the storage from then on: a model that was rebuilt, say. If a storage dies that lives on in the trace,
// while one whose death the trace has lives on, the latter takes its place. What another class of windows has made is
// known by its identity, else by its size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/names.h"

namespace tensorpager::follow {

class StorageMap {
 public:
  /// What an op touches, compared with its arguments in the plan.
  enum class Arguments : std::uint8_t {
    kAsKnown,
    kOthers,   // it uses storages of the plan that are not its arguments: the same layer further on, say
    kRebound,  // some arguments are other blocks from now on
  };
  /// Whether blocks may be replaced that are bound to arguments and that the op does not touch.
  enum class Replacing : std::uint8_t { kNo, kYes };

  explicit StorageMap(const Agenda& agenda) : agenda_(agenda), blocks_(agenda.storages()) {}

  void bind(StorageId storage, Block& block);
  /// The storage has no block.
  void unbind(StorageId storage);
  void died(const Block& block) noexcept;
  /// Returns null if the storage is unknown.
  Block* block_of(StorageId storage) const { return blocks_[trace::index(storage)]; }
  std::optional<StorageId> storage_of(const Block& block) const;
  bool knows(const Block& block) const { return storage_of(block).has_value(); }

  /// An op begins: forgets which storages have died, and which blocks were replaced.
  void begin_op();
  /// Binds what the op of the plan touches, as far as it is unknown.
  Arguments match_arguments(std::uint32_t op, std::span<Block* const> touched, Replacing replacing);
  /// Blocks that were storages of the plan until this op began, and no longer are.
  const std::vector<Block*>& replaced() const { return replaced_; }

  /// If the block of `ending`, which is to die after the op `last`, lives on, it continues another storage: one that
  /// the op is to have written and that no longer exists, the first in the trace's order, or one that died instead.
  /// Returns the block then, else null.
  Block* take_over(StorageId ending, std::uint32_t last);
  /// Binds storages alive between windows that are unknown here to blocks that `from` knows.
  void adopt_entries(const StorageMap& from);

 private:
  bool bind_missing(std::uint32_t op, std::vector<Block*>& unknown);
  bool replace(std::uint32_t op, std::span<Block* const> touched, std::vector<Block*>& unknown);
  std::optional<StorageId> continued_by(StorageId ending, std::uint32_t last) const;

  const Agenda& agenda_;
  std::vector<Block*> blocks_;  // by storage; null if unknown
  std::unordered_map<const Block*, StorageId> storages_;
  std::vector<StorageId> lost_;  // since the last op began: their blocks died, the trace has them alive
  std::vector<Block*> replaced_;
};

}  // namespace tensorpager::follow
