// What is known of objects that live for ever, by their addresses: found without a lock, also by the child of a fork
// that came while another thread inserted. Entries are never removed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tensorpager::base {

/// Open addressing. `of` is the member that has the address of the object that an entry is of.
template <typename Entry, auto of>
class AddressTable {
 public:
  /// Twice the overloads that torch has.
  static constexpr std::size_t kSlots = std::size_t{1} << 14;

  /// Returns null if there is none. The table must not be full.
  const Entry* find(const void* key) const {
    for (std::size_t slot = slot_of(key);; slot = next(slot)) {
      const Entry* entry = slots_[slot].load(std::memory_order_acquire);
      if (entry == nullptr || entry->*of == key) return entry;
    }
  }
  /// Returns the entry that is there from now on: if threads insert one of the same object, the first stays. Null if
  /// the table is full but for one slot, which ends every search.
  const Entry* insert(std::unique_ptr<const Entry> made) {
    const Entry* there = nullptr;
    if (entries_.fetch_add(1, std::memory_order_relaxed) + 1 < kSlots) {
      for (std::size_t slot = slot_of(made.get()->*of);; slot = next(slot)) {
        there = nullptr;
        if (slots_[slot].compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) return made.release();
        if (there->*of == made.get()->*of) break;
      }
    }
    entries_.fetch_sub(1, std::memory_order_relaxed);
    return there;
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& slot : slots_)
      if (const Entry* entry = slot.load(std::memory_order_acquire)) visit(*entry);
  }

 private:
  static std::size_t slot_of(const void* key) {
    return (reinterpret_cast<std::uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15ULL >> 50;  // 14 bits
  }
  static std::size_t next(std::size_t slot) { return (slot + 1) % kSlots; }

  std::array<std::atomic<const Entry*>, kSlots> slots_{};
  std::atomic<std::size_t> entries_{0};
};

}  // namespace tensorpager::base
