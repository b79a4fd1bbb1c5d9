// Before Linux 6.17 `mremap` refuses a range of more than one mapping. This executable's own `mremap` stands in front
// of the real one and refuses likewise where a test asks for it, so a kernel of today shows whether the binding moves
// mapping by mapping.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "../pager/executor_fixture.h"
#include "stable_binding_fixture.h"
#include "tensorpager/arena/address_space.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/memory/stable_binding.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/transfer/queues.h"

namespace {

bool g_is_old = false;
std::atomic<int> g_moves{0};
std::atomic<int> g_refused{0};

[[maybe_unused]] bool is_one_mapping(std::uintptr_t begin, std::uintptr_t end) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), &std::fclose);
  char line[512];
  while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= begin && begin < to) return end <= to;
  }
  return false;
}

struct OldKernel {
  OldKernel() { g_is_old = true; }
  ~OldKernel() { g_is_old = false; }
};

}  // namespace

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TENSORPAGER_OWN_MREMAP 0  // the sanitizers have one of their own
#else
#define TENSORPAGER_OWN_MREMAP 1
extern "C" void* mremap(void* old, size_t old_size, size_t new_size, int flags, ...) noexcept {
  va_list rest;
  va_start(rest, flags);
  void* target = va_arg(rest, void*);
  va_end(rest);
  ++g_moves;
  const auto begin = reinterpret_cast<std::uintptr_t>(old);
  if (g_is_old && !is_one_mapping(begin, begin + old_size)) {
    ++g_refused;
    errno = EFAULT;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mremap, old, old_size, new_size, flags, target));
}
#endif

namespace tensorpager::memory {
namespace {

using base::Bytes;

class OldKernelTest : public testing::TestWithParam<arena::AddressSpace::Where> {};

TEST_P(OldKernelTest, TheStableBindingMovesMappingByMapping) {
  if (TENSORPAGER_OWN_MREMAP == 0) GTEST_SKIP() << "a sanitizer has the place in front of the real mremap";
  const OldKernel old;
  arena::AddressSpace space(GetParam());
  StableBinding binding(space);
  EXPECT_EQ(g_refused.exchange(0), 1) << "the binding found out";
  pager::Pager pager(space, binding, std::make_unique<pager::LruPolicy>());
  constexpr std::uint64_t kBudget = 8 << 20;
  pager::Pager::Options options;
  options.budget = Bytes(kBudget);
  pager.start(options, transfer::make_threaded_queues(transfer::make_ram_tier()));
  pager::Script script;
  pager.following().follow(&script);

  // Blocks of many sizes in a budget that holds a third of them: most are put together from pieces, and moved again.
  const std::uint64_t seed = 20;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  struct Owned {
    pager::Block* block;
    unsigned char value;
  };
  std::vector<Owned> owned;
  for (unsigned i = 0; i < 600; ++i) {
    if (owned.size() > 40) {
      std::swap(owned[random() % owned.size()], owned.back());
      pager.storages().destroy(*owned.back().block);
      owned.pop_back();
    }
    pager::Block& block = pager.storages().create(Bytes(16384 + random() % (i % 9 == 0 ? 3 << 20 : 500'000)));
    owned.push_back({&block, static_cast<unsigned char>(i)});
    // Transfer threads move pages too, and pass them on.
    pager::Block &out = block, &in = *owned[random() % owned.size()].block;
    script.at_end = {{pager::Kind::kPageOut, &out},
                     {.kind = pager::Kind::kAwaitQueued, .block = &out, .number = out.number},
                     {pager::Kind::kPageIn, &in}};
    pager::PinSet pins(pager, pager::Temporaries::kKeep);
    pins.see(block, pager::Access::kWrite);
    pins.follow(base::name_hash("op"));
    pins.admit();
    std::memset(block.data, static_cast<int>(i & 0xFF), block.size.count());
    Owned& other = owned[random() % owned.size()];
    pins.see(*other.block, pager::Access::kRead);
    pins.admit();
    ASSERT_EQ(static_cast<unsigned char>(other.block->data[other.block->size.count() - 1]), other.value);
    ASSERT_EQ(static_cast<unsigned char>(other.block->data[0]), other.value);
  }
  EXPECT_GT(g_moves.exchange(0), 1000);
  EXPECT_EQ(g_refused, 0);
  EXPECT_LE(pager.accounts().statistics().peak_bytes, kBudget);
  EXPECT_GT(pager.accounts().statistics().handling_beside_seconds, 0.0);
  pager.following().follow(nullptr);
  for (const Owned& one : owned) pager.storages().destroy(*one.block);
  pager.stop();
}

INSTANTIATE_TEST_SUITE_P(Where, OldKernelTest, anywhere_and_apart(), name_of);

}  // namespace
}  // namespace tensorpager::memory
