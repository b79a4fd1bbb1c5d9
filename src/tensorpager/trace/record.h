// A trace: what one window of a program did with its storages, op by op. A plain value, whatever made it.
//
// A window ends with the set of live storages that it began with. A storage that is alive at the beginning (an entry)
// either lives through the window (a parameter) or dies in it and is born again (a gradient, if the window begins
// between the two); every other storage is born and dies within the window.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/event_sink.h"
#include "tensorpager/base/flop_rates.h"

namespace tensorpager::trace {

enum class StorageId : std::uint32_t {};
constexpr std::uint32_t index(StorageId id) { return static_cast<std::uint32_t>(id); }

using base::Precision;
using base::Purity;

struct Storage {
  base::Bytes bytes = {};                      // as requested, before rounding to the granule
  bool entry = false;                          // alive when the window begins and when it ends
  std::string name = {};                       // for reports; may be empty
  std::optional<std::uint64_t> identity = {};  // of entries: the same in the traces of all classes of windows
};

struct Op {
  std::string name = {};
  std::vector<StorageId> reads = {};
  std::vector<StorageId> writes = {};  // written, and alive before the op
  std::vector<StorageId> births = {};  // made and written by this op
  std::vector<StorageId> deaths = {};  // freed after this op and before the next
  std::vector<StorageId> renews =
      {};                      // of writes: those that a storage which dies here continues; the op is not given them
  base::Bytes temporary = {};  // peak of what its kernel allocates and frees again
  std::chrono::nanoseconds time{0};  // as measured; 0 if it was not
  std::uint64_t flops = 0;
  base::Bytes moved = {};                            // bytes that its kernel reads and writes
  base::OpClass op_class = base::OpClass::kProduct;  // by its name, which copies of a trace may lack
  Precision precision = Precision::kFloat32;
  Purity purity = Purity::kNever;
  bool random = false;         // draws from a generator
  bool list = false;           // works on lists of tensors (foreach, fused)
  bool backward = false;       // called by the autograd engine
  bool optimizer = false;      // within an optimizer's step
  std::uint32_t rebuilds = 0;  // of a replay, in a rewritten trace: storages that it keeps; see plan/rewriting.h
};

struct Trace {
  base::Bytes granule = base::kPage;   // what a block's size is rounded up to; a power of two
  base::Bytes slab = {};               // charged throughout for the storages that are too small to be listed
  std::vector<Storage> storages = {};  // by StorageId
  std::vector<Op> ops = {};            // by op index
};

/// Checks the rules above, op by op. `add` returns an empty text if the op follows them.
class Checker {
 public:
  explicit Checker(const std::vector<Storage>& storages);

  /// Every id must be one of `storages`. The text begins with the name of the wrong field.
  std::string add(const Op& op);
  /// Called after the last op.
  std::string finish() const;

 private:
  enum class State : std::uint8_t { kUnborn, kAlive, kDead };
  std::string add_list(const std::vector<StorageId>& list, const char* field, std::uint64_t mark);

  const std::vector<Storage>& storages_;
  std::vector<State> states_;
  std::vector<std::uint64_t> marks_;  // the last list in which each storage occurred
  std::vector<bool> reborn_;
  std::uint64_t mark_ = 0;
};

/// Throws InvalidArgument with the op, if a trace that was not read from a file breaks the rules.
void check(const Trace& trace);

}  // namespace tensorpager::trace
