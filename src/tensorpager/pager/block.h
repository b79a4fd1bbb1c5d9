// A storage's memory and its state. The state is one word, so that a pin of a resident block is one atomic operation
// and needs no lock:
//
//   resident --page out--> absent --page in--> resident, clean --first write--> resident
//   any --storage dies--> dead        (the memory goes back at once; the record waits for the last pin, R7)
//
// While a page-out is in flight the block is resident and clean: readers go on, and a writer cancels the copy. While a
// page-in is in flight the block is absent.
//
// Under the rebinding binding a block is born unclaimed, and cannot be evicted before its storage is known.
//
// Only the pager, holding its lock, sets or clears absent, clean and dead, and it makes a block absent only from a word
// without pins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensorpager/base/bytes.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

enum class Access : std::uint8_t { kRead, kWrite };
struct Relocating;

/// Bits of the state word.
inline constexpr std::uint64_t kAbsent = std::uint64_t{1} << 63;  // the bytes are in the tier
inline constexpr std::uint64_t kDead = std::uint64_t{1} << 62;    // its storage is gone
inline constexpr std::uint64_t kClean = std::uint64_t{1} << 61;  // resident, read-only, and the tier has the same bytes
inline constexpr std::uint64_t kUnclaimed = std::uint64_t{1} << 60;  // resident, and no storage is known to notify
inline constexpr std::uint64_t kExport = std::uint64_t{1} << 32;     // one pin of a named export
inline constexpr std::uint64_t kExportMask = (kUnclaimed - 1) & ~(kExport - 1);
inline constexpr std::uint64_t kPin = 1;  // one pin of a frame
inline constexpr std::uint64_t kPinMask = kExport - 1;

struct Block {
  std::atomic<std::uint64_t> word{0};
  std::atomic<std::uint64_t> last_use{0};  // op index
  std::uint64_t number = 0;                // in the order of births; unique in the process
  std::byte* data = nullptr;               // null while absent under the rebinding binding
  void* holder = nullptr;                  // the storage that claimed it (rebinding)
  base::Bytes size;                        // bytes the program asked for
  base::Bytes charged;                     // size rounded up to the granule
  bool kept = false;                       // has an export pin from its birth to its death (R4)
  transfer::Slot slot;                     // valid while absent or clean
  transfer::Ticket copy;                   // the page-out in flight, while `copying`
  bool copying = false;                    // the copy to the tier may not be done, and nobody waited for it
  bool leaving = false;                    // becomes absent when the copy is done, or is already (`taken`)
  bool is_awaited = false;                 // while it is leaving: the plan counts it until it awaits it
  bool arriving = false;                   // absent, and a page-in is in flight
  std::shared_ptr<Relocating> taken;       // its pages, while it is leaving and absent already
  bool departed = false;  // a place in use until it is copied: its storage died while it was leaving, or is elsewhere
  std::uint32_t mended = 0;      // times it was made accessible or writable; wraps
  std::uint32_t list_index = 0;  // place in the policy while resident, in the list of absent blocks while not

  std::uint64_t state() const { return word.load(std::memory_order_acquire); }
  bool is_absent() const { return (state() & kAbsent) != 0; }
  bool is_charged() const { return !is_absent() || arriving; }
  bool is_clean() const { return (state() & kClean) != 0; }
  bool is_pinned() const { return (state() & (kPinMask | kExportMask | kUnclaimed)) != 0; }
  bool is_exported() const { return (state() & kExportMask) != 0; }
  bool is_evictable() const { return !leaving && !is_pinned(); }
};

}  // namespace tensorpager::pager
