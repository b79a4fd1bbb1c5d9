#include "tensorpager/arena/slabs.h"

#include <algorithm>
#include <memory>
#include <new>

#include "tensorpager/base/errors.h"

namespace tensorpager::arena {
namespace {

/// At the start of each chunk; blocks follow at the next multiple of 64 bytes.
struct ChunkHeader {
  std::uint32_t size_class;
};

ChunkHeader* header_of(void* block) {
  return reinterpret_cast<ChunkHeader*>(reinterpret_cast<std::uintptr_t>(block) & ~(Slabs::kChunk.count() - 1));
}

/// Free blocks a thread keeps of one class: half a chunk's worth, but enough that small classes rarely take the shared
/// lock.
std::uint32_t most_kept(std::size_t block_size) {
  return static_cast<std::uint32_t>(std::max<std::size_t>(8, Slabs::kChunk.count() / 2 / block_size));
}

/// The lists of this thread, and which Slabs they belong to (tests make several; a program has one).
[[gnu::tls_model("initial-exec")]] constinit thread_local void* t_lists = nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local Slabs* t_owner = nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local bool t_ended = false;  // the thread's lists are gone for good

}  // namespace

/// Runs when a thread ends; frees that come later still (from other destructors) go to the shared lists.
struct SlabThreadExit {
  ~SlabThreadExit() {
    auto* lists = static_cast<Slabs::ThreadLists*>(t_lists);
    Slabs* owner = t_owner;
    t_lists = nullptr;
    t_ended = true;
    if (owner != nullptr && lists != nullptr) owner->adopt(*lists);
    delete lists;
  }
  void arm() { armed = true; }  // any use makes it, so that it ends with the thread
  bool armed = false;
};

namespace {
thread_local SlabThreadExit t_exit;
}  // namespace

Slabs::Slabs(ChunkSource source) : source_(std::move(source)) {
  // 64, 128, ... 512, then four sizes to each doubling: at most a fifth is lost inside a block.
  std::size_t count = 0;
  for (std::size_t size = kStep; size <= 512; size += kStep) sizes_[count++] = static_cast<std::uint16_t>(size);
  for (std::size_t base_size = 512; base_size < base::kMinPagedBytes.count(); base_size *= 2)
    for (std::size_t quarter = 1; quarter <= 4; ++quarter)
      sizes_[count++] = static_cast<std::uint16_t>(base_size + base_size / 4 * quarter);
  TENSORPAGER_CHECK(count == kClasses);
  for (std::size_t step = 0, size_class = 0; step <= kSteps; ++step) {
    if (step * kStep > sizes_[size_class]) ++size_class;
    class_of_step_[step] = static_cast<std::uint8_t>(size_class);
  }
}

Slabs::ThreadLists* Slabs::lists_of_this_thread() {
  if (t_owner == this && t_lists != nullptr) [[likely]]
    return static_cast<ThreadLists*>(t_lists);
  if (t_ended) return nullptr;
  t_exit.arm();
  if (t_lists != nullptr && t_owner != nullptr) {
    t_owner->adopt(*static_cast<ThreadLists*>(t_lists));
    delete static_cast<ThreadLists*>(t_lists);
  }
  t_owner = this;
  t_lists = new ThreadLists;
  return static_cast<ThreadLists*>(t_lists);
}

void* Slabs::allocate(std::size_t size) {
  const std::size_t size_class = class_of_step_[(size + kStep - 1) / kStep];
  ThreadLists* lists = lists_of_this_thread();
  List none;
  List& list = lists != nullptr ? lists->lists[size_class] : none;
  if (list.first == nullptr) [[unlikely]]
    refill(list, size_class);
  FreeBlock* block = list.first;
  list.first = block->next;
  --list.count;
  if (&list == &none) spill(none, size_class, 0);
  return block;
}

void Slabs::free(void* block) noexcept {
  const std::size_t size_class = header_of(block)->size_class;
  auto* freed = ::new (block) FreeBlock;
  ThreadLists* lists = lists_of_this_thread();
  List none;
  List& list = lists != nullptr ? lists->lists[size_class] : none;
  freed->next = list.first;
  list.first = freed;
  ++list.count;
  const std::uint32_t most = &list == &none ? 0 : most_kept(sizes_[size_class]);
  if (list.count > most) [[unlikely]]
    spill(list, size_class, most / 2);
}

void Slabs::refill(List& list, std::size_t size_class) {
  Shared& shared = shared_[size_class];
  {
    const std::lock_guard lock(shared.mutex);
    const std::uint32_t wanted = most_kept(sizes_[size_class]) / 2;
    while (shared.list.first != nullptr && list.count < wanted) {
      FreeBlock* block = shared.list.first;
      shared.list.first = block->next;
      --shared.list.count;
      block->next = list.first;
      list.first = block;
      ++list.count;
    }
  }
  if (list.first != nullptr) return;
  std::byte* chunk = source_();
  ::new (chunk) ChunkHeader{static_cast<std::uint32_t>(size_class)};
  const std::size_t size = sizes_[size_class];
  for (std::size_t at = kStep; at + size <= kChunk.count(); at += size) {
    auto* block = ::new (chunk + at) FreeBlock{list.first};
    list.first = block;
    ++list.count;
  }
}

void Slabs::spill(List& list, std::size_t size_class, std::uint32_t keep) {
  Shared& shared = shared_[size_class];
  const std::lock_guard lock(shared.mutex);
  while (list.count > keep) {
    FreeBlock* block = list.first;
    list.first = block->next;
    --list.count;
    block->next = shared.list.first;
    shared.list.first = block;
    ++shared.list.count;
  }
}

void Slabs::adopt(ThreadLists& lists) noexcept {
  for (std::size_t size_class = 0; size_class < kClasses; ++size_class) spill(lists.lists[size_class], size_class, 0);
}

void Slabs::lock_all() {
  for (Shared& shared : shared_) shared.mutex.lock();
}

void Slabs::unlock_all() {
  for (Shared& shared : shared_) shared.mutex.unlock();
}

void Slabs::reset_locks_in_child() {
  for (Shared& shared : shared_) ::new (&shared.mutex) std::mutex;
}

}  // namespace tensorpager::arena
