// Which of the blocks that an op makes are storages of the plan.
//
// When the op has ended it is known: of those that still live the k-th is the k-th pageable birth of the trace's op,
// and if they are not as many, those that have its size are, in their order. While the op runs, what it makes next is
// what it made at that place in the last window; if that is not known, or it has made something of another size this
// time, the first birth of this size that has no block yet. An op that was called with other sizes than planned makes
// blocks of other sizes, too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/names.h"
#include "tensorpager/follow/storage_map.h"

namespace tensorpager::follow {

class BirthMatcher {
 public:
  explicit BirthMatcher(const Agenda& agenda) : agenda_(agenda), places_(agenda.ops()) {}

  /// Sets the places of the op's births among all that it makes, temporaries too; else they are known once it has run.
  void expect(std::uint32_t op, std::vector<std::uint32_t> places);

  /// An op begins, and has made nothing.
  void begin_op();
  /// It was called with other sizes than planned.
  void note_resized() { order_ = Order::kResized; }
  bool is_resized() const { return order_ == Order::kResized; }
  /// It made a block, which may be a storage of the plan.
  void created(Block& block) { born_.push_back({&block, made_++}); }
  /// It made a block; it is not the plan's.
  void pass_by() { ++made_; }
  void died(const Block& block) noexcept;
  /// What was made as `fresh` is this block.
  void taken_over(Block& block, const Block& fresh);
  std::uint32_t made() const { return made_; }

  /// Returns what the op of the plan is about to make, and expects it no more; nullopt for a temporary.
  std::optional<StorageId> take_next(std::uint32_t op, base::Bytes size);
  /// Binds what was made, and lives, to the births of the plan's op. Returns whether they are as many as planned, and
  /// have their sizes.
  bool bind_births(std::uint32_t op, StorageMap& storages);
  /// What was made is not matched any more.
  void forget() { born_.clear(); }

 private:
  struct Birth {
    Block* block;
    std::uint32_t place;  // among all that the op made
  };
  enum class Order : std::uint8_t {
    kAsInLastWindow,
    kOther,    // it makes others than in the last window, as far as sizes tell
    kResized,  // sizes do not tell
  };

  const Agenda& agenda_;
  std::vector<Birth> born_;
  std::uint32_t made_ = 0;
  Order order_ = Order::kAsInLastWindow;
  /// By op: the places of its births among all that it makes, as they were in the last window; empty: not known.
  std::vector<std::vector<std::uint32_t>> places_;
  std::vector<StorageId> taken_;  // in the op under way
};

}  // namespace tensorpager::follow
