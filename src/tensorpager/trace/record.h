// A trace: what one window of a program did with its storages, op by op. A plain value; who made it does not matter.
//
// A window returns to the set of live storages that it began with. A storage that is alive at its entry either lives
// through it (a parameter) or dies in it and is born again (a gradient, where the window begins between the two); every
// other one is born and dies within the window.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/event_sink.h"

namespace tensorpager::trace {

enum class StorageId : std::uint32_t {};
constexpr std::uint32_t index(StorageId id) { return static_cast<std::uint32_t>(id); }

using base::Precision;

struct Storage {
  base::Bytes bytes = {};                      // as asked for, before rounding to the granule
  bool entry = false;                          // alive when the window begins, and when it ends
  std::string name = {};                       // for reports; may be empty
  std::optional<std::uint64_t> identity = {};  // of an entry: the same in the traces of all classes of windows
};

struct Op {
  std::string name = {};
  std::vector<StorageId> reads = {};
  std::vector<StorageId> writes = {};  // written, and alive before
  std::vector<StorageId> births = {};  // made and written by this op
  std::vector<StorageId> deaths = {};  // freed after this op and before the next
  base::Bytes temporary = {};          // what its kernel allocates and frees again, at the most
  std::chrono::nanoseconds time{0};    // as measured; 0 where it was not
  std::uint64_t flops = 0;
  base::Bytes moved = {};  // bytes that its kernel reads and writes
  Precision precision = Precision::kFloat32;
  bool random = false;     // draws from a generator
  bool list = false;       // works on lists of tensors (foreach, fused)
  bool backward = false;   // called by the autograd engine
  bool optimizer = false;  // within an optimizer's step
};

struct Trace {
  base::Bytes granule = base::kPage;   // what a block's size is rounded up to; a power of two
  base::Bytes slab = {};               // charged all the time for what is too small to be listed as storages
  std::vector<Storage> storages = {};  // by StorageId
  std::vector<Op> ops = {};            // by op index
};

/// Says what the rules at the top do not allow, op by op. `add` gives an empty text where all is well.
class Checker {
 public:
  explicit Checker(const std::vector<Storage>& storages);

  /// Every id must be one of `storages`. The text begins with the field that is wrong.
  std::string add(const Op& op);
  /// After the last op.
  std::string finish() const;

 private:
  enum class State : std::uint8_t { kUnborn, kAlive, kDead };
  std::string add_list(const std::vector<StorageId>& list, const char* field, std::uint64_t mark);

  const std::vector<Storage>& storages_;
  std::vector<State> states_;
  std::vector<std::uint64_t> marks_;  // the last list that each storage was seen in
  std::vector<bool> reborn_;
  std::uint64_t mark_ = 0;
};

/// Throws InvalidArgument, naming the op, where a trace that was not read from a file breaks the rules.
void check(const Trace& trace);

}  // namespace tensorpager::trace
