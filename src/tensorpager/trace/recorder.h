// Records the events of a session as a stream of ops, in the order in which the ops began.
//
// - An op that touches, makes and frees no block is not in the stream: its time is added to the op before it, and so is
//   the time that the program spends between two ops. So metadata, logging and loops over small tensors leave no
//   record.
// - The ops that an op's kernel calls are part of the op. A block that an op makes and that dies before the op ends is
//   temporary: of these only the largest sum at one time is kept or, if blocks share one arena, the length of the piece
//   of memory that they need if each is put into the first gap.
// - What another thread makes and frees outside ops while one op runs belongs to that op: kernels share their work
//   among threads.
// - A block that is born outside any op is born by an op of its own, `outside`.
// - What a library's own thread makes beside ops is temporary in all ops that began while it is alive, and in the one
//   that began last before it.
// - A block that dies between two ops, or while several run, dies after the one that began last.
//
// Only the last ops of a long run are kept. Thread-safe: one lock, held for a few instructions.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::trace {

class Recorder final : public base::EventSink {
 public:
  /// About a hundred training steps of a large model; about 60 MB.
  static constexpr std::size_t kMostOps = std::size_t{1} << 18;

  enum class Temporaries : std::uint8_t { kApart, kInOnePiece };
  /// On a host each thread is a program, and an op has taken its time when it ends. On a device threads take turns at
  /// one program, as the engine of autograd does, and an op's time is told later.
  enum class Computes : std::uint8_t { kOnHost, kOnDevice };

  /// Keeps the last `most_ops` ops, and up to twice as many.
  explicit Recorder(base::Bytes granule, std::size_t most_ops = kMostOps, Temporaries temporaries = Temporaries::kApart,
                    Computes computes = Computes::kOnHost)
      : granule_(granule), temporaries_(temporaries), computes_(computes), most_ops_(most_ops) {}

  Ticket op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept override;
  void op_touches(Ticket op, std::span<const base::Touch> touched) noexcept override;
  Ticket op_ends(Ticket op, std::chrono::nanoseconds took) noexcept override;
  void op_timed(Ticket op, std::chrono::nanoseconds took) noexcept override;
  void block_born(Ticket op, const base::NewBlock& block) noexcept override;
  void block_died(Ticket op, std::uint64_t number) noexcept override;
  void slab_grew(base::Bytes slab) noexcept override;
  void hint(base::Hint hint) noexcept override;

  /// Forgets all records. The caller must announce the live blocks again.
  void restart() noexcept;
  /// Raises the number of ops that are kept; never lowers it.
  void keep(std::size_t most_ops) noexcept;
  /// Time in the kernels of all ops so far, and between them.
  std::chrono::nanoseconds op_time() const;
  /// The ops so far, up to the first that has not ended, or of which the time is not known yet.
  Stream stream() const;

 private:
  struct Op {
    base::OpFacts facts;
    std::vector<base::Touch> touched;
    std::size_t arguments = 0;  // how many of `touched` are the op's arguments
    std::vector<base::NewBlock> births;
    std::vector<std::uint32_t> made;  // by birth: its position among all blocks that the op made
    std::vector<std::uint64_t> deaths;
    base::Bytes temporary;
    base::Bytes beside;  // the most in blocks that were made beside, until the next op began
    std::chrono::nanoseconds time{0};
    base::Bytes slab;
    std::uint32_t optimizer_step = 0;
    std::uint32_t steps_before = 0;
    std::thread::id thread = {};
    bool open = false;
    std::uint32_t untimed = 0;  // ops whose times count to this one and are not known yet
  };
  /// A birth or a death of a block that an open op made.
  struct Change {
    std::uint64_t number;
    base::Bytes charged;
    bool is_birth;
  };
  struct Origin {
    base::Bytes bytes;
    std::string_view maker;
    bool from_backward;
  };

  Op* find(Ticket op);
  Ticket whose(Ticket op) const;
  Ticket append(const base::OpFacts& facts);
  void settle_temporaries(Op& op, Ticket ticket);
  static base::Bytes largest_sum(const std::vector<Change>& changes);
  static base::Bytes length_of_piece(const std::vector<Change>& changes);
  void forget_oldest();

  const base::Bytes granule_;
  const Temporaries temporaries_;
  const Computes computes_;
  std::size_t most_ops_;
  mutable std::mutex mutex_;
  std::deque<Op> ops_;
  std::vector<Ticket> open_;
  Ticket first_ = 1;                                         // of ops_.front()
  std::unordered_map<std::uint64_t, Origin> alive_before_;   // alive before the first op
  std::unordered_map<Ticket, std::vector<Change>> changes_;  // of open ops
  std::unordered_map<std::uint64_t, base::Bytes> beside_;    // charged, of the blocks that are alive
  base::Bytes beside_bytes_;
  base::Bytes slab_;
  std::uint32_t optimizer_steps_ = 0;
  std::uint32_t optimizers_ = 0;  // in progress
  std::uint32_t marked_steps_ = 0;
  std::chrono::nanoseconds op_time_{0};
};

}  // namespace tensorpager::trace
