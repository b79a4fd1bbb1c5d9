#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensorpager/fake_cuda/device_memory.h"
#include "tensorpager/fake_cuda/memory_book.h"
#include "tensorpager/fake_cuda/pinned_memory.h"

namespace tensorpager::fake_cuda {
namespace {

TEST(MemoryBook, SplitsAFreePartAndMergesItAgain) {
  MemoryBook book(4096, 8192, Fit::kFirst);
  EXPECT_EQ(book.allocate(512), 0U);
  EXPECT_EQ(book.allocate(1), 512U) << "rounded up to a unit";
  EXPECT_EQ(book.allocate(512), 1024U);
  EXPECT_EQ(book.used(), 1536U);
  EXPECT_EQ(book.free(0)->bytes, 512U);
  EXPECT_EQ(book.free(1024)->bytes, 512U);
  EXPECT_EQ(book.free(512)->bytes, 512U) << "joins what is free on both sides";
  EXPECT_EQ(book.allocate(4096), 0U);
  EXPECT_EQ(book.allocate(1), std::nullopt) << "nothing is left over";
}

TEST(MemoryBook, RefusesWhatDoesNotFit) {
  MemoryBook book(8192, 2048, Fit::kFirst);
  EXPECT_EQ(book.allocate(4096), std::nullopt) << "over the limit";
  EXPECT_EQ(book.allocate(~std::size_t{0}), std::nullopt);
  EXPECT_EQ(book.allocate(2048), 0U);
  EXPECT_EQ(book.allocate(1), std::nullopt);
  EXPECT_EQ(book.free(512), std::nullopt) << "no block begins there";
  EXPECT_TRUE(book.free(0));
  EXPECT_EQ(book.free(0), std::nullopt) << "freed already";
  EXPECT_TRUE(book.allocate(1));
}

TEST(MemoryBook, BestFitTakesTheSmallestPartThatHoldsIt) {
  for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
    MemoryBook book(8192, 8192, fit);
    book.allocate(2048);
    book.allocate(512);
    book.allocate(1024);
    book.allocate(512);
    book.free(0);
    book.free(2560);
    EXPECT_EQ(book.allocate(1024), fit == Fit::kFirst ? 0U : 2560U);
  }
}

TEST(MemoryBook, FindsTheBlockOfAnOffset) {
  MemoryBook book(4096, 4096, Fit::kBest);
  book.allocate(1024);
  EXPECT_EQ(book.find(1023)->bytes, 1024U);
  EXPECT_EQ(book.find(1024), std::nullopt);
}

std::size_t resident_pages(const void* from, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  EXPECT_EQ(mincore(const_cast<void*>(from), bytes, pages.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

TEST(DeviceMemory, GivesPagesBackWhenABlockIsFreed) {
  constexpr std::size_t kBytes = 64 * 4096;
  DeviceMemory memory(1 << 20, Fit::kBest);
  void* block = memory.allocate(kBytes);
  ASSERT_TRUE(block);
  void* view = memory.view(block);
  EXPECT_EQ(resident_pages(view, kBytes), 0U) << "nothing was touched yet";
  std::memset(view, 1, kBytes);
  EXPECT_EQ(resident_pages(view, kBytes), 64U);
  EXPECT_EQ(memory.free(block), kBytes);
  EXPECT_EQ(resident_pages(view, kBytes), 0U);
  EXPECT_EQ(memory.used(), 0U);
  EXPECT_EQ(memory.free(block), std::nullopt);
}

TEST(DeviceMemory, TheHostCannotTouchADeviceAddress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DeviceMemory memory(1 << 20, Fit::kBest);
  auto* block = static_cast<volatile char*>(memory.allocate(512));
  EXPECT_DEATH(block[0] = 1, "");
}

TEST(DeviceMemory, MayBeLargerThanTheMachine) {
  constexpr std::size_t kBytes = std::size_t{300} << 30;
  DeviceMemory memory(kBytes, Fit::kBest);
  void* block = memory.allocate(kBytes);
  ASSERT_TRUE(block);
  EXPECT_EQ(memory.bytes_at(static_cast<char*>(block) + 1), kBytes - 1);
  static_cast<char*>(memory.view(block))[kBytes - 1] = 7;
  EXPECT_EQ(memory.allocate(1), nullptr) << "full";
  EXPECT_EQ(memory.free(block), kBytes);
}

TEST(DeviceMemory, FreeMemoryIsNeverInPieces) {
  DeviceMemory memory(8 * 512, Fit::kBest);
  void* blocks[8];
  for (void*& block : blocks) block = memory.allocate(512);
  for (int i = 0; i < 8; i += 2) memory.free(blocks[i]);
  EXPECT_TRUE(memory.allocate(4 * 512)) << "a card maps free pages to new addresses";
}

TEST(PinnedMemory, KnowsItsRanges) {
  PinnedMemory memory;
  char own[100];
  void* allocated = memory.allocate(5000);
  EXPECT_EQ(memory.bytes_at(static_cast<char*>(allocated) + 4999), 1U);
  EXPECT_TRUE(memory.add(own, sizeof own));
  EXPECT_FALSE(memory.add(own + 50, 10)) << "pinned already";
  EXPECT_EQ(memory.bytes_at(own + 99), 1U);
  EXPECT_EQ(memory.bytes_at(own + 100), 0U);
  EXPECT_FALSE(memory.free(own)) << "not allocated here";
  EXPECT_FALSE(memory.remove(allocated)) << "not registered";
  EXPECT_TRUE(memory.remove(own));
  EXPECT_TRUE(memory.free(allocated));
  EXPECT_FALSE(memory.free(allocated));
}

}  // namespace
}  // namespace tensorpager::fake_cuda
