#include "tensorpager/arena/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::arena {
namespace {

using base::Bytes;

/// The table is opened in steps of this many bytes of addresses: 128 KiB of table each.
constexpr std::uint64_t kTableStep = std::uint64_t{64} << 20;

/// Linux places mappings downwards from the stack, which is at 128 TiB or above, and only where there is no room left,
/// or with `ulimit -s unlimited`, upwards from a third of that: `TASK_UNMAPPED_BASE` of x86-64, 42.7 TiB. mimalloc asks
/// for addresses from 2 to 30 TiB, and for pages of 1 GiB from 32 TiB on; AddressSanitizer has those below 16 TiB.
constexpr std::uintptr_t kApartBegin = std::uintptr_t{36} << 40, kApartEnd = std::uintptr_t{42} << 40;

/// Returns null if the addresses there are in use. What it returns is aligned to huge pages.
std::byte* reserve_apart(std::uint64_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  for (std::uintptr_t begin = kApartBegin; begin + bytes <= kApartEnd; begin += std::uintptr_t{1} << 40) {
    void* const wanted = reinterpret_cast<void*>(begin);
    void* const at = mmap(wanted, bytes, PROT_NONE, kFlags, -1, 0);
    if (at == wanted) return static_cast<std::byte*>(at);
    if (at != MAP_FAILED) munmap(at, bytes);  // a kernel before 4.17, or a sanitizer, takes it for a hint
  }
  return nullptr;
}

std::byte* reserve(std::uint64_t bytes, const char* what) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw base::IoError("mmap", what, Bytes(bytes), errno);
  return static_cast<std::byte*>(at);
}

/// Aligned to huge pages.
std::byte* reserve_aligned(std::uint64_t bytes, const char* what) {
  constexpr std::uint64_t kHuge = base::kHugePage.count();
  std::byte* const raw = reserve(bytes + kHuge, what);
  const std::uint64_t before = (kHuge - reinterpret_cast<std::uint64_t>(raw) % kHuge) % kHuge;
  if (before > 0) munmap(raw, before);
  munmap(raw + before + bytes, kHuge - before);
  return raw + before;
}

}  // namespace

AddressSpace::AddressSpace(Where where)
    : slab_{0, base::Extents(Bytes(kSlabZone), base::kPage)},
      small_{kSlabZone, base::Extents(Bytes(kSmallZone), base::kPage)},
      large_{kSlabZone + kSmallZone, base::Extents(Bytes(kLargeZone), base::kPage)} {
  base_ = where == Where::kApart ? reserve_apart(kSize) : nullptr;
  if (base_ == nullptr) base_ = reserve_aligned(kSize, "the address range (try `ulimit -v unlimited`)");
  table_ = reinterpret_cast<void**>(reserve(table_bytes(), "the block table"));
}

AddressSpace::AddressSpace(std::byte* begin, Bytes size, Bytes granule)
    : base_(begin),
      size_(size.count()),
      slab_end_(0),
      shift_(static_cast<std::uint64_t>(std::countr_zero(granule.count()))),
      owns_addresses_(false),
      slab_{0, base::Extents(Bytes(0), granule)},
      small_{0, base::Extents(Bytes(0), granule)},
      large_{0, base::Extents(Bytes(0), granule)} {
  table_ = reinterpret_cast<void**>(reserve(table_bytes(), "the block table"));
  open_table(large_, size_);
}

AddressSpace::~AddressSpace() {
  if (owns_addresses_) munmap(base_, size_);
  munmap(table_, table_bytes());
}

bool AddressSpace::is_apart() const {
  const auto begin = reinterpret_cast<std::uintptr_t>(base_);
  return owns_addresses_ && kApartBegin <= begin && begin < kApartEnd;
}

const AddressSpace::Zone& AddressSpace::zone_of(std::uint64_t at) const {
  if (!owns_addresses_) return large_;
  return at < kSlabZone ? slab_ : at < kSlabZone + kSmallZone ? small_ : large_;
}

AddressSpace::Zone& AddressSpace::zone_of(std::uint64_t at) {
  return const_cast<Zone&>(std::as_const(*this).zone_of(at));
}

void AddressSpace::open_table(Zone& zone, std::uint64_t end) {
  if (end <= zone.table_open) return;
  const std::uint64_t open = std::min((end + kTableStep - 1) / kTableStep * kTableStep, size_ - zone.begin);
  void** first = table_ + ((zone.begin + zone.table_open) >> shift_);
  const std::uint64_t bytes = ((open - zone.table_open) >> shift_) * sizeof(void*);
  if (mprotect(first, bytes, PROT_READ | PROT_WRITE) != 0)
    throw base::IoError("mprotect", "the block table", Bytes(bytes), errno);
  zone.table_open = open;
}

std::byte* AddressSpace::take_from(Zone& zone, Bytes size, Bytes alignment) {
  const auto at = zone.extents.take(size, alignment);
  if (!at) throw base::IoError("mmap", "our range of addresses", size, ENOMEM);
  open_table(zone, *at + size.count());
  return base_ + zone.begin + *at;
}

std::byte* AddressSpace::take(Bytes size) {
  return size < base::kHugePage ? take_from(small_, size, base::kPage) : take_from(large_, size, base::kHugePage);
}

std::byte* AddressSpace::take_slab_chunk(Bytes size) { return take_from(slab_, size, size); }

void AddressSpace::give_back(std::byte* at, Bytes size) {
  Zone& zone = zone_of(offset(at));
  zone.extents.give_back(offset(at) - zone.begin, size);
}

void* AddressSpace::owner_before(const void* address) const {
  const std::uint64_t at = offset(address);
  const Zone& zone = zone_of(at);
  if (at - zone.begin >= zone.table_open) return nullptr;
  const std::uint64_t first = zone.begin >> shift_;
  for (std::uint64_t page = at >> shift_;; --page) {
    if (table_[page] != nullptr) return table_[page];
    if (page == first) return nullptr;
  }
}

}  // namespace tensorpager::arena
