#include "tensorpager/intercept/foreign.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace tensorpager::intercept {
namespace {

struct Seen {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::uint64_t bytes;
};

/// The storages noted lately, by address: a hit needs no lock. A storage that took the address of a dead one may be
/// missed until the entry is evicted; the figure is for people.
constexpr std::size_t kRecent = 1024;
std::array<std::atomic<const c10::StorageImpl*>, kRecent> g_recent{};

std::mutex g_foreign_mutex;
auto& g_seen =
    *new std::unordered_map<const c10::StorageImpl*, Seen>;  // never destroyed: ops may run until the very end
std::uint64_t g_peak = 0;
c10::DeviceType g_device = c10::DeviceType::CPU;  // of the session
std::size_t g_next_sweep = 256;

/// Drops the dead and counts the living. Called with the lock held.
void sweep() {
  std::uint64_t bytes = 0;
  for (auto it = g_seen.begin(); it != g_seen.end();) {
    if (it->second.storage.expired()) {
      it = g_seen.erase(it);
    } else {
      bytes += it->second.bytes;
      ++it;
    }
  }
  g_peak = std::max(g_peak, bytes);
  g_next_sweep = std::max<std::size_t>(256, 2 * g_seen.size());
}

}  // namespace

void note_foreign(c10::StorageImpl& storage) {
  if (storage.device_type() != g_device) return;
  auto& recent = g_recent[(reinterpret_cast<std::uintptr_t>(&storage) >> 5) % kRecent];
  if (recent.load(std::memory_order_relaxed) == &storage) return;
  recent.store(&storage, std::memory_order_relaxed);
  const std::lock_guard lock(g_foreign_mutex);
  auto reference = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage);
  g_seen.insert_or_assign(&storage, Seen{c10::weak_intrusive_ptr<c10::StorageImpl>(reference), storage.nbytes()});
  if (g_seen.size() >= g_next_sweep) sweep();
}

std::uint64_t foreign_peak_bytes() {
  const std::lock_guard lock(g_foreign_mutex);
  sweep();
  return g_peak;
}

std::mutex& foreign_lock() { return g_foreign_mutex; }

void forget_foreign(c10::DeviceType device) {
  const std::lock_guard lock(g_foreign_mutex);
  g_device = device;
  g_seen.clear();
  for (auto& recent : g_recent) recent.store(nullptr, std::memory_order_relaxed);
  g_peak = 0;
}

}  // namespace tensorpager::intercept
