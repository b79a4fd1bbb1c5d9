// Blocks of a stable binding, and the kernel's account of their pages.
#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/arena/witness.h"
#include "tensorpager/memory/stable_binding.h"

namespace tensorpager::memory {

using namespace base;
using arena::Piece;
using pager::Access;
using pager::Block;

/// Asks the kernel, which answers instead of faulting.
class AccessProbe {
 public:
  AccessProbe() { EXPECT_EQ(pipe(ends_), 0); }
  ~AccessProbe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  AccessProbe(const AccessProbe&) = delete;
  AccessProbe& operator=(const AccessProbe&) = delete;

  bool may_read(const std::byte* at) { return read_byte(at).has_value(); }
  /// The byte there; nullopt if it may not be read.
  std::optional<char> read_byte(const std::byte* at) {
    // Not by write(), which ThreadSanitizer would take for an access of this thread, beside a move.
    if (syscall(SYS_write, ends_[1], at, std::size_t{1}) != 1) return std::nullopt;
    char taken = 0;
    EXPECT_EQ(read(ends_[0], &taken, 1), 1);
    return taken;
  }
  /// Writes what is there already.
  bool may_write(std::byte* at) {
    if (write(ends_[1], at, 1) != 1) return false;
    if (read(ends_[0], at, 1) == 1) return true;
    char taken = 0;
    EXPECT_EQ(read(ends_[0], &taken, 1), 1);
    return false;
  }

 private:
  int ends_[2];
};

/// By where the addresses are, which decides how pages are moved.
class StableBindingTest : public testing::TestWithParam<arena::AddressSpace::Where> {
 protected:
  void acquire(Block& block, Bytes size, Bytes allowance = kUnlimited) {
    block.size = size;
    block.charged = binding_.charge_for(size);
    block.data = binding_.acquire(block, {}, allowance);
  }
  void page_out(Block& block) {
    binding_.begin_page_out(block);
    const pager::Relocation away = binding_.begin_unbind(block);
    relocate(away);
    if (away.to != nullptr) binding_.discard(block, away.there());
    block.word = pager::kAbsent;
  }
  /// Fills what is staged with `mark`.
  void page_in(Block& block, char mark, Access access) {
    const std::vector<Piece> pieces = binding_.stage(block, {.bytes = block.charged}, kUnlimited);
    for (const Piece& piece : pieces) std::memset(piece.at, mark, piece.bytes.count());
    relocate(binding_.begin_bind(block, pieces, access));
    block.word = access == Access::kRead ? pager::kClean : 0;
  }
  void relocate(const pager::Relocation& relocation) {
    binding_.relocate(relocation);
    binding_.end_relocation(relocation);
  }
  static bool is_all(const Block& block, char mark) {
    return std::all_of(block.data, block.data + block.charged.count(),
                       [&](std::byte b) { return b == std::byte(mark); });
  }
  Bytes resident() const { return arena::resident_size(space_.begin(), space_.end()); }

  arena::AddressSpace space_{GetParam()};
  StableBinding binding_{space_};
  AccessProbe probe_;
};

inline auto anywhere_and_apart() {
  using Where = arena::AddressSpace::Where;
  return testing::Values(Where::kAnywhere, Where::kApart);
}
inline std::string name_of(const testing::TestParamInfo<arena::AddressSpace::Where>& info) {
  return info.param == arena::AddressSpace::Where::kApart ? "Apart" : "Anywhere";
}

}  // namespace tensorpager::memory
