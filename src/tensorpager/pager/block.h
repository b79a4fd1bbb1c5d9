// A storage's memory and its state. Where the block is, `residence` says, under the pager's lock: states.h has the
// table of transitions. What ops ask without the lock is one word, so that a pin of a resident block is one atomic
// operation: it says whether the block can be pinned, for reading or writing, and counts the pins.
//
// Only the pager, holding its lock, sets or clears absent, clean and dead, and it makes a block absent only from a word
// without pins, or with those of the one op for which it moves the block. A dead block's memory goes back at once; the
// record waits for the last pin.
//
// Under the rebinding binding a block is born unclaimed, and cannot be evicted before its storage is known.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/device_order.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

enum class Access : std::uint8_t { kRead, kWrite };
struct Relocating;

enum class Residence : std::uint8_t {
  kResident,  // in memory; it can be pinned
  kLeaving,   // its page-out is submitted
  kPassedOn,  // it is leaving, and page-ins behind its page-out get its pages
  kBelow,     // its bytes are in the tier only
  kArriving,  // its page-in is submitted
  kDropped,   // its bytes are nowhere; a replay rebuilds them
  kOrphaned,  // no storage's block: a place that is in use until its bytes are copied
  kDead,      // its storage died
};

/// Whether its bytes count against the budget.
constexpr bool is_charged(Residence residence) {
  return residence == Residence::kResident || residence == Residence::kLeaving || residence == Residence::kArriving ||
         residence == Residence::kOrphaned;
}

/// Bits of the state word.
inline constexpr std::uint64_t kAbsent = std::uint64_t{1} << 63;  // cannot be pinned; see `residence`
inline constexpr std::uint64_t kDead = std::uint64_t{1} << 62;    // its storage is gone
inline constexpr std::uint64_t kClean = std::uint64_t{1} << 61;  // resident, read-only, and the tier has the same bytes
inline constexpr std::uint64_t kUnclaimed = std::uint64_t{1} << 60;  // resident, and no storage is known to notify
inline constexpr std::uint64_t kExport = std::uint64_t{1} << 32;     // one pin of a named export
inline constexpr std::uint64_t kExportMask = (kUnclaimed - 1) & ~(kExport - 1);
inline constexpr std::uint64_t kPin = 1;  // one pin of a frame
inline constexpr std::uint64_t kPinMask = kExport - 1;

inline constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

struct Block {
  std::atomic<std::uint64_t> word{0};
  std::atomic<std::uint64_t> last_use{0};  // op index
  std::uint64_t number = 0;                // in the order of births; unique in the process
  std::byte* data = nullptr;               // null while below under the rebinding binding
  void* holder = nullptr;                  // the storage that claimed it (rebinding)
  base::Bytes size;                        // bytes the program asked for
  base::Bytes charged;                     // size rounded up to the granule
  std::uint64_t place = kNowhere;          // its offset in an arena that blocks share; see Places
  Residence residence = Residence::kResident;
  bool is_from_replay = false;            // a replay allocated it: it is no part of the program
  bool kept = false;                      // has an export pin from its birth to its death (R4)
  bool is_awaited = false;                // while it is leaving: the plan counts it until it awaits it
  bool copying = false;                   // the copy to the tier may not be done, and nobody waited for it
  transfer::Ticket copy;                  // while `copying`
  transfer::Slot slot;                    // has bytes while the block is leaving, below, arriving or clean
  std::atomic<bool> is_versioned{false};  // the rebuilder keeps a version of its contents: writes are announced to it
  std::shared_ptr<Relocating> relocated;  // its pages, if they are copied from elsewhere while it is leaving
  std::uint32_t mended = 0;               // times it was made accessible or writable; wraps
  std::uint32_t list_index = 0;           // place in the list of its state
  mutable std::uint32_t source_hint = 0;  // where an action source probably has it: it looks there first

  /// Of a block that has a place. Made when it is first asked for, at the birth of a device's block, with the lock
  /// held.
  DeviceUse& use() {
    if (device_use == nullptr) device_use = std::make_unique<DeviceUse>();
    return *device_use;
  }
  std::unique_ptr<DeviceUse> device_use;  // ask by `use`

  std::uint64_t state() const { return word.load(std::memory_order_acquire); }
  bool is_absent() const { return (state() & kAbsent) != 0; }
  bool is_leaving() const { return residence == Residence::kLeaving || is_passed_on(); }
  bool is_passed_on() const { return residence == Residence::kPassedOn; }
  bool is_arriving() const { return residence == Residence::kArriving; }
  bool is_dropped() const { return residence == Residence::kDropped; }
  bool is_charged() const { return pager::is_charged(residence); }
  bool is_clean() const { return (state() & kClean) != 0; }
  bool is_pinned() const { return (state() & (kPinMask | kExportMask | kUnclaimed)) != 0; }
  bool is_exported() const { return (state() & kExportMask) != 0; }
};

}  // namespace tensorpager::pager
