#include "tensorpager/arena/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace tensorpager::arena {
namespace {

using namespace base;

constexpr std::size_t kMost = kMinPagedBytes.count() - 1;

/// Slabs over chunks that are counted, and freed at the end. A thread's lists point into them, so all use is by threads
/// that end before.
class SlabsTest : public testing::Test {
 protected:
  ~SlabsTest() override {
    for (std::byte* chunk : chunks_) std::free(chunk);
  }

  std::byte* make_chunk() {
    const std::lock_guard lock(mutex_);
    if (chunks_.size() >= most_chunks_) throw std::bad_alloc();
    auto* chunk = static_cast<std::byte*>(std::aligned_alloc(Slabs::kChunk.count(), Slabs::kChunk.count()));
    chunks_.push_back(chunk);
    return chunk;
  }

  template <typename Body>
  static void on_a_thread(Body body) {
    std::thread(body).join();
  }

  std::mutex mutex_;
  std::vector<std::byte*> chunks_;
  std::size_t most_chunks_ = ~std::size_t{0};
  Slabs slabs_{[this] { return make_chunk(); }};
};

TEST_F(SlabsTest, AlignsEverySizeTo64Bytes) {
  on_a_thread([&] {
    for (std::size_t size = 1; size <= kMost; size += 13) {
      void* block = slabs_.allocate(size);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u) << size;
      std::memset(block, 0xAB, size);
      slabs_.free(block);
    }
  });
}

/// What a block of `size` takes up: the distance to its nearest neighbour in a chunk of its own class.
std::size_t taken_by(Slabs& slabs, std::size_t size) {
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < 2 * Slabs::kChunk.count() / size + 2; ++i)
    blocks.push_back(static_cast<std::byte*>(slabs.allocate(size)));
  std::vector<std::byte*> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  std::ptrdiff_t least = static_cast<std::ptrdiff_t>(Slabs::kChunk.count());
  for (std::size_t i = 1; i < sorted.size(); ++i) least = std::min(least, sorted[i] - sorted[i - 1]);
  for (std::byte* block : blocks) slabs.free(block);
  return static_cast<std::size_t>(least);
}

TEST_F(SlabsTest, LosesUpTo63BytesInSmallBlocksAndAtMostAFifthAbove512) {
  on_a_thread([&] {
    for (const std::size_t size : {1,    64,   65,   128,  300,  449,  512,   513,   640,   641,  768,
                                   1023, 1025, 4096, 4097, 5121, 8193, 10241, 12289, 14337, 16383}) {
      const std::size_t taken = taken_by(slabs_, size);
      EXPECT_GE(taken, size);
      if (size <= 512)
        EXPECT_LT(taken, size + 64);
      else
        EXPECT_LE((taken - size) * 5, taken) << size;
    }
  });
}

TEST_F(SlabsTest, BlocksThatAreAliveNeverOverlap) {
  constexpr unsigned kSeed = 5;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  struct Live {
    unsigned char* block;
    std::size_t size;
    unsigned char mark;
  };
  on_a_thread([&] {
    std::mt19937 random(kSeed);
    std::vector<Live> live;
    for (int step = 0; step < 20'000; ++step) {
      if (live.size() < 300 && random() % 5 < 3) {
        const std::size_t size = 1 + random() % (random() % 4 == 0 ? kMost : 300);
        const Live made{static_cast<unsigned char*>(slabs_.allocate(size)), size, static_cast<unsigned char>(random())};
        std::memset(made.block, made.mark, size);
        live.push_back(made);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const Live gone = live.back();
        live.pop_back();
        ASSERT_TRUE(std::all_of(gone.block, gone.block + gone.size, [&](unsigned char c) { return c == gone.mark; }));
        slabs_.free(gone.block);
      }
    }
    for (const Live& left : live) slabs_.free(left.block);
  });
}

TEST_F(SlabsTest, AsksForNoMoreChunksInASteadyState) {
  on_a_thread([&] {
    std::vector<void*> blocks;
    std::size_t after_first = 0;
    for (int round = 0; round < 100; ++round) {
      for (int i = 0; i < 1000; ++i) blocks.push_back(slabs_.allocate(static_cast<std::size_t>(i) * 4 + 1));
      for (void* block : blocks) slabs_.free(block);
      blocks.clear();
      if (round == 0) after_first = chunks_.size();
    }
    EXPECT_EQ(chunks_.size(), after_first);
  });
}

TEST_F(SlabsTest, AThreadThatEndsGivesItsListsBack) {
  for (int i = 0; i < 200; ++i) on_a_thread([&] { slabs_.free(slabs_.allocate(1000)); });
  EXPECT_EQ(chunks_.size(), 1u);
}

TEST_F(SlabsTest, AThreadKeepsUsingBothOfTwoSlabs) {
  Slabs other([this] { return make_chunk(); });
  on_a_thread([&] {
    for (int i = 0; i < 200; ++i) {
      slabs_.free(slabs_.allocate(1000));
      other.free(other.allocate(1000));
    }
  });
  EXPECT_EQ(chunks_.size(), 2u);
}

/// Blocks that outlive the thread's lists: what a destructor of another library's thread-local object does.
struct LateUser {
  ~LateUser() {
    if (slabs == nullptr) return;
    slabs->free(block);
    slabs->free(slabs->allocate(1000));
  }
  Slabs* slabs = nullptr;
  void* block = nullptr;
};
thread_local LateUser t_late_user;

TEST_F(SlabsTest, ServesAThreadAfterItsListsAreGone) {
  for (int i = 0; i < 200; ++i) {
    on_a_thread([&] {
      t_late_user.slabs = &slabs_;  // made before the lists, so it goes after them
      t_late_user.block = slabs_.allocate(1000);
    });
  }
  EXPECT_EQ(chunks_.size(), 1u) << "blocks were stranded";
}

// One thread allocates, another frees, as autograd does with what forward made. The queue is bounded, so the blocks
// that are alive are too; chunks beyond those would mean that what the second thread frees never comes back to the
// first.
TEST_F(SlabsTest, ChunksStayBoundedWhereOneThreadFreesWhatAnotherAllocates) {
  constexpr int kBlocks = 50'000;
  constexpr std::size_t kMostQueued = 100;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<void*> queue;
  std::thread producer([&] {
    for (int i = 0; i < kBlocks; ++i) {
      void* block = slabs_.allocate(1024);
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return queue.size() < kMostQueued; });
      queue.push_back(block);
      changed.notify_all();
    }
  });
  std::thread consumer([&] {
    for (int i = 0; i < kBlocks; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !queue.empty(); });
      void* block = queue.front();
      queue.pop_front();
      changed.notify_all();
      lock.unlock();
      slabs_.free(block);
    }
  });
  producer.join();
  consumer.join();
  // 100 queued, half a chunk of free ones for each thread, and one chunk being cut.
  EXPECT_LE(chunks_.size(), 6u);
}

TEST_F(SlabsTest, StaysUsableWhenThereIsNoRoomForAChunk) {
  on_a_thread([&] {
    most_chunks_ = 1;
    std::vector<void*> blocks;
    EXPECT_THROW(for (;;) blocks.push_back(slabs_.allocate(4096)), std::bad_alloc);
    EXPECT_EQ(blocks.size(), 15u) << "a chunk holds 16 less the header";
    EXPECT_THROW(slabs_.allocate(64), std::bad_alloc);
    slabs_.free(blocks.back());
    EXPECT_EQ(slabs_.allocate(4096), blocks.back());
    most_chunks_ = 2;
    void* small = slabs_.allocate(64);
    slabs_.free(small);
    for (void* block : blocks) slabs_.free(block);
  });
  EXPECT_EQ(chunks_.size(), 2u);
}

TEST_F(SlabsTest, ServesThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<unsigned char*> blocks;
      for (int i = 0; i < 5000; ++i) {
        auto* block = static_cast<unsigned char*>(slabs_.allocate(200));
        std::memset(block, t, 200);
        blocks.push_back(block);
        if (blocks.size() < 400) continue;
        for (unsigned char* b : blocks) {
          wrong += std::all_of(b, b + 200, [&](unsigned char c) { return c == t; }) ? 0 : 1;
          slabs_.free(b);
        }
        blocks.clear();
      }
      for (unsigned char* b : blocks) slabs_.free(b);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tensorpager::arena
