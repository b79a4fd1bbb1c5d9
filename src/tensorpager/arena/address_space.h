// One reserved range of addresses that everything we give out lies in, and the table that finds a block by its address.
//
// Reserved memory is inaccessible, so it counts neither as resident nor against RLIMIT_DATA. Three zones keep unlike
// things apart: slabs (chunk-aligned), small blocks (page-aligned), large blocks (aligned to huge pages, so that a move
// of theirs is one entry of the page directory). A context equals its data pointer (oneDNN allocates raw through the
// same allocator), so the table maps the first page of a block to its owner; an inner address is found by walking back
// to the first page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/extents.h"

namespace tensorpager::arena {

class AddressSpace {
 public:
  /// Where addresses are reserved: apart from the mappings whose place the kernel chooses, if that is free, or wherever
  /// it chooses.
  enum class Where : std::uint8_t { kApart, kAnywhere };

  /// Reserves addresses for the life of the process. Throws IoError if the kernel refuses.
  explicit AddressSpace(Where where = Where::kApart);
  /// Of addresses that somebody else has, as a device's memory: only the table is made. Blocks start at multiples of
  /// the granule, a power of two. It has no slabs, and nothing can be taken.
  AddressSpace(std::byte* begin, base::Bytes size, base::Bytes granule);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// Addresses for `size` bytes, inaccessible until pages are put there. Throws IoError when the zone is used up.
  std::byte* take(base::Bytes size);
  void give_back(std::byte* at, base::Bytes size);
  std::byte* take_slab_chunk(base::Bytes size);  // aligned to its size

  /// Whether no mapping gets in here whose place the kernel chooses, so that a part can be unmapped for a moment.
  bool is_apart() const;
  bool contains(const void* address) const { return offset(address) < size_; }
  bool is_slab(const void* address) const { return offset(address) < slab_end_; }

  /// The owner set for exactly this first page.
  void* owner_at(const void* first) const { return table_[offset(first) >> shift_]; }
  /// Does nothing if the address is outside, as that of a device's block can be.
  void set_owner(const void* first, void* owner) {
    if (contains(first)) table_[offset(first) >> shift_] = owner;
  }
  /// The owner of the nearest block that starts at or before the address, in its zone; null if there is none.
  void* owner_before(const void* address) const;

  const std::byte* begin() const { return base_; }
  const std::byte* end() const { return base_ + size_; }

 private:
  static constexpr std::uint64_t kPageShift = 12;
  static constexpr std::uint64_t kSlabZone = std::uint64_t{64} << 30;
  static constexpr std::uint64_t kSmallZone = std::uint64_t{448} << 30;
  static constexpr std::uint64_t kLargeZone = std::uint64_t{512} << 30;
  static constexpr std::uint64_t kSize = kSlabZone + kSmallZone + kLargeZone;

  /// A zone takes what Extents says and opens the table up to its top.
  struct Zone {
    std::uint64_t begin;
    base::Extents extents;
    std::uint64_t table_open = 0;  // bytes of the zone whose table entries are accessible
  };

  std::uint64_t offset(const void* address) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - base_);
  }
  Zone& zone_of(std::uint64_t offset);
  std::byte* take_from(Zone& zone, base::Bytes size, base::Bytes alignment);
  void open_table(Zone& zone, std::uint64_t end);
  const Zone& zone_of(std::uint64_t offset) const;
  std::uint64_t table_bytes() const { return (size_ >> shift_) * sizeof(void*); }

  std::byte* base_ = nullptr;
  const std::uint64_t size_ = kSize, slab_end_ = kSlabZone;
  const std::uint64_t shift_ = kPageShift;  // of the granule at which blocks start
  const bool owns_addresses_ = true;
  void** table_ = nullptr;
  Zone slab_, small_, large_;
};

}  // namespace tensorpager::arena
