#include "tensorpager/cli/machine_measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tensorpager/base/clock.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::cli {
namespace {

using base::Bytes;
using base::operator""_KiB;
using base::operator""_MiB;

/// From the smallest paged size to that of a large layer; beyond, rates do not change.
constexpr Bytes kSizes[] = {16_KiB, 64_KiB, 256_KiB, 1_MiB, 4_MiB, 16_MiB};
constexpr std::size_t kSlots = 4;    // written in turn, so that a drive's cache does not help
constexpr double kSeconds = 0.15;    // for each size and direction
constexpr std::size_t kLeast = 5;    // transfers, however slow
constexpr std::size_t kMost = 200;   // transfers, however fast
constexpr double kLeastShare = 0.1;  // of the time of a transfer: at least this much is not latency

class PageBuffer {
 public:
  explicit PageBuffer(Bytes size)
      : bytes_(size.count()),
        data_(static_cast<std::byte*>(::operator new(size.count(), std::align_val_t(base::kPage.count())))) {
    std::minstd_rand random(1);  // so that a drive that compresses has no advantage
    for (std::size_t at = 0; at + sizeof(std::uint32_t) <= bytes_; at += sizeof(std::uint32_t)) {
      const auto word = static_cast<std::uint32_t>(random());
      std::memcpy(data_ + at, &word, sizeof word);
    }
  }
  ~PageBuffer() { ::operator delete(data_, std::align_val_t(base::kPage.count())); }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;

  std::span<std::byte> first(Bytes size) { return {data_, size.count()}; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

/// The median of the seconds that `run(i)` takes.
template <typename Run>
double seconds_of(Run&& run) {
  std::vector<double> all;
  double sum = 0;
  while (all.size() < kLeast || (sum < kSeconds && all.size() < kMost)) {
    const double begin = base::seconds_now();
    run(all.size());
    all.push_back(base::seconds_now() - begin);
    sum += all.back();
  }
  std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  return all[all.size() / 2];
}

/// Splits the time of a transfer into latency and bytes over the rate of its size, as Link::time_of adds them.
template <typename Transfer>
machine::Link link_of(Transfer&& transfer) {
  const double latency = seconds_of([&](std::size_t i) { transfer(i, base::kPage); });
  machine::Link link{.latency = std::chrono::nanoseconds(static_cast<std::int64_t>(latency * 1e9)), .steps = {}};
  for (const Bytes size : kSizes) {
    const double whole = seconds_of([&](std::size_t i) { transfer(i, size); });
    const double moving = std::max(whole - latency, whole * kLeastShare);
    link.steps.push_back(
        {.from = link.steps.empty() ? Bytes(0) : size, .bytes_per_second = static_cast<double>(size.count()) / moving});
  }
  return link;
}

}  // namespace

Measured measure_machine(const std::string& spill) {
  const std::unique_ptr<transfer::Tier> tier =
      spill == "ram" ? transfer::make_ram_tier() : transfer::make_file_tier(spill);
  constexpr Bytes kLargest = kSizes[std::size(kSizes) - 1];
  PageBuffer from(kLargest), to(kLargest);
  struct Slots {
    transfer::Tier& tier;
    std::vector<transfer::Slot> all = {};
    ~Slots() {
      for (const transfer::Slot& slot : all) tier.release(slot);
    }
  } slots{*tier};
  for (std::size_t i = 0; i < kSlots; ++i) {
    slots.all.push_back(tier->reserve(kLargest));
    tier->write(from.first(kLargest), slots.all.back(), Bytes(0));
  }

  Measured measured{.machine = {}, .tier = tier->name(), .copy_rate = 0};
  measured.machine.name = "this-machine";
  measured.machine.memory = base::physical_memory();
  measured.machine.out =
      link_of([&](std::size_t i, Bytes size) { tier->write(from.first(size), slots.all[i % kSlots], Bytes(0)); });
  measured.machine.in =
      link_of([&](std::size_t i, Bytes size) { tier->read(slots.all[i % kSlots], Bytes(0), to.first(size)); });
  const double copy = seconds_of(
      [&](std::size_t) { std::memcpy(to.first(kLargest).data(), from.first(kLargest).data(), kLargest.count()); });
  measured.copy_rate = static_cast<double>(kLargest.count()) / copy;
  return measured;
}

}  // namespace tensorpager::cli
