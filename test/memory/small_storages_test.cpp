#include "tensorpager/memory/small_storages.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "tensorpager/base/config.h"

namespace tensorpager::memory {
namespace {

using base::Bytes;
using device::Queue;
using device::QueueSet;

constexpr auto kFirst = Queue::kCompute;
constexpr auto kSecond = static_cast<Queue>(device::index_of(Queue::kCompute) + 1);

class SmallStoragesTest : public testing::Test {
 protected:
  std::byte* take_chunk() { return reinterpret_cast<std::byte*>(++chunks_ << 20); }

  std::uint64_t chunks_ = 0;
  std::vector<std::pair<Queue, QueueSet>> orders_;
  SmallStorages small_{[this] { return take_chunk(); },
                       [this](Queue waiter, QueueSet others) { orders_.emplace_back(waiter, others); }};
};

TEST_F(SmallStoragesTest, LieInChunksWithoutOverlapAlignedAsKernelsWantThem) {
  std::set<std::uint64_t> taken;
  for (std::uint64_t size = 1; size < base::kMinPagedBytes.count(); size += 97) {
    const auto at = reinterpret_cast<std::uint64_t>(small_.allocate(Bytes(size), kFirst));
    EXPECT_EQ(at % 512, 0u);
    const std::uint64_t offset = at % (std::uint64_t{1} << 20);
    ASSERT_LE(offset + size, SmallStorages::kChunk.count());
    for (std::uint64_t granule = at / 512; granule < (at + size + 511) / 512; ++granule)
      ASSERT_TRUE(taken.insert(granule).second) << size;
  }
}

TEST_F(SmallStoragesTest, AreReusedInTheirQueueWithoutAWait) {
  std::byte* const at = small_.allocate(Bytes(100), kFirst);
  EXPECT_TRUE(small_.free(at));
  EXPECT_EQ(small_.allocate(Bytes(500), kFirst), at);
  EXPECT_TRUE(orders_.empty());
}

TEST_F(SmallStoragesTest, StayWithTheirQueue) {
  std::byte* const at = small_.allocate(Bytes(100), kFirst);
  EXPECT_TRUE(small_.free(at));
  EXPECT_NE(small_.allocate(Bytes(100), kSecond), at);
  EXPECT_EQ(chunks_, 2u);
}

TEST_F(SmallStoragesTest, ThatOthersUsedComeBehindThem) {
  std::byte* const at = small_.allocate(Bytes(100), kFirst);
  EXPECT_TRUE(small_.note_use(at, kFirst));
  EXPECT_TRUE(small_.note_use(at, kSecond));
  EXPECT_TRUE(small_.free(at));
  ASSERT_EQ(orders_.size(), 1u);
  EXPECT_EQ(orders_.front(), std::pair(kFirst, device::set_of(kSecond)));
}

TEST_F(SmallStoragesTest, KnowWhatIsNotTheirs) {
  std::byte* const at = small_.allocate(Bytes(100), kFirst);
  EXPECT_FALSE(small_.free(at + 1));
  EXPECT_FALSE(small_.note_use(at + 1, kSecond));
  EXPECT_TRUE(small_.free(at));
  EXPECT_FALSE(small_.free(at)) << "freed twice";
}

}  // namespace
}  // namespace tensorpager::memory
