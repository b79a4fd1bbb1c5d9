// The kernel of this machine is asked, so what it cannot do is skipped, with the reason.
#include "tensorpager/arena/kernel_moves.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include <cstdio>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace tensorpager::arena {
namespace {

using namespace base;

/// Four populated pages, the last two of which may only be read, and room for as many behind them.
class TwoMappings {
 public:
  TwoMappings()
      : from_(
            static_cast<std::byte*>(mmap(nullptr, 8 * kPage.count(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(mprotect(from_, 4 * kPage.count(), PROT_READ | PROT_WRITE), 0);
    for (std::uint64_t i = 0; i < 4; ++i) from_[i * kPage.count()] = std::byte{1};
    EXPECT_EQ(mprotect(page(2), 2 * kPage.count(), PROT_READ), 0);
  }
  ~TwoMappings() { munmap(from_, 8 * kPage.count()); }
  TwoMappings(const TwoMappings&) = delete;
  TwoMappings& operator=(const TwoMappings&) = delete;

  std::byte* page(std::uint64_t i) const { return from_ + i * kPage.count(); }
  /// Moves the first pages behind all four.
  bool move(std::uint64_t pages) const {
    const std::size_t bytes = pages * kPage.count();
    return mremap(from_, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, page(4)) == page(4);
  }

 private:
  std::byte* from_;
};

bool is_since_6_17() {
  utsname name;
  int major = 0, minor = 0;
  return uname(&name) == 0 && std::sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 17));
}

TEST(KernelMoves, AreFoundOutAsTheKernelMakesThem) {
  const TwoMappings memory;
  EXPECT_EQ(kernel_moves_across_mappings(), memory.move(4));
  EXPECT_EQ(kernel_moves_across_mappings(), is_since_6_17()) << "by its version";
}

TEST(KernelMoves, SayHowMuchHasGone) {
  if (!kernel_moves_across_mappings()) GTEST_SKIP() << "the kernel moves one mapping only";
  const Bytes all(4 * kPage.count());
  const TwoMappings memory;
  EXPECT_EQ(moved_before_failure(memory.page(0), all), 0_B);
  ASSERT_TRUE(memory.move(2));
  EXPECT_EQ(moved_before_failure(memory.page(0), all), Bytes(2 * kPage.count()));
  EXPECT_EQ(moved_before_failure(memory.page(4), all), 0_B) << "here they are";
  ASSERT_EQ(mprotect(memory.page(2), 2 * kPage.count(), PROT_NONE), 0);
  EXPECT_EQ(moved_before_failure(memory.page(0), all), Bytes(2 * kPage.count())) << "inaccessible pages are there";
}

}  // namespace
}  // namespace tensorpager::arena
