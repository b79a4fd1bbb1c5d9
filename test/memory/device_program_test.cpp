// Random programs on a device whose kernels run late and out of order, under a budget: every kernel finds the bytes
// that the program's order says, and no two accesses are unordered. A pager that leaves any of its waits out is found
// here.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "../random_cases.h"
#include "device_pager.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::memory {
namespace {

using namespace base;
using device::WorldStreams;
using pager::Access;
using pager::Block;
using pager::PinSet;

struct Case {
  unsigned seed;
  std::string schedule;
  std::size_t streams;
};

class DeviceProgramTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr Bytes kBudget{std::uint64_t{1} << 20};

  /// A storage of the program, and what it holds in the program's order.
  struct Tensor {
    Storage storage;
    std::uint32_t value = 0;
    std::size_t last_stream = 0;
    std::uint32_t behind_write = 0;  // streams, as bits, that come behind the last write
    std::uint32_t readers = 0;       // since then
  };

  std::uint64_t below(std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random_); }

  /// A kernel that expects `values` in the arguments and fills `result`.
  void launch(const std::vector<Tensor*>& arguments, Tensor* result) {
    std::vector<WorldStreams::Range> touched;
    std::vector<std::pair<const std::byte*, std::uint32_t>> expected;
    for (Tensor* tensor : arguments) {
      Block& block = *tensor->storage.block;
      touched.push_back({block.data, block.size.count(), tensor == result});
      expected.emplace_back(block.data, tensor->value);
    }
    std::byte* to = nullptr;
    std::size_t size = 0;
    if (result != nullptr) {
      to = result->storage.block->data;
      size = result->storage.block->size.count();
      if (std::ranges::find(arguments, result) == arguments.end()) touched.push_back({to, size, true});
      result->value = ++last_value_;
    }
    const std::uint32_t value = last_value_;
    streams_.launch("kernel", touched, [this, expected, to, size, value] {
      for (const auto& [at, wanted] : expected) {
        std::uint32_t found = 0;
        std::memcpy(&found, streams_.view(at), sizeof found);
        wrong_ += found != wanted ? 1 : 0;
      }
      if (to == nullptr) return;
      auto* const words = static_cast<std::uint32_t*>(streams_.view(to));
      std::fill(words, words + size / sizeof value, value);
    });
  }

  Block& create() { return pager_.storages().create(Bytes((1 + below(40)) << 12)); }

  /// An op: some arguments, one of which it may write; a result, and scratch memory that is freed within it.
  void op() {
    const std::size_t stream = below(GetParam().streams);
    streams_.compute_on(stream);
    std::vector<Tensor*> arguments;
    for (std::uint64_t i = 0; i < below(3) && !tensors_.empty(); ++i) {
      Tensor* const tensor = tensors_[below(tensors_.size())].get();
      if (std::ranges::find(arguments, tensor) == arguments.end()) arguments.push_back(tensor);
    }
    const bool writes = !arguments.empty() && below(3) == 0;
    // A program orders its streams itself, readers behind the last write and a write behind all; what frees a tensor
    // that another stream used is the allocator's to mind.
    const std::uint32_t bit = 1u << stream;
    const auto is_unordered = [&](const Tensor* one) {
      return (one->behind_write & bit) == 0 || (writes && one == arguments.front() && (one->readers & ~bit) != 0);
    };
    if (std::ranges::any_of(arguments, is_unordered)) {
      streams_.join_streams();
      for (const auto& tensor : tensors_) tensor->behind_write |= bit;
    }
    pager_.boundaries().op_begins();
    try {
      PinSet pins(pager_, pager::Temporaries::kKeep, &room_);
      for (Tensor* tensor : arguments)
        pins.see(*tensor->storage.block, writes && tensor == arguments.front() ? Access::kWrite : Access::kRead);
      pins.admit();
      for (Tensor* tensor : arguments) {
        ASSERT_EQ(tensor->storage.data, tensor->storage.block->data) << "the storage was not told of a move";
        tensor->last_stream = stream;
        tensor->readers |= bit;
      }
      if (writes) {
        arguments.front()->behind_write = bit;
        arguments.front()->readers = 0;
        return launch(arguments, arguments.front());
      }
      auto made = std::make_unique<Tensor>();
      made->storage.block = &create();
      made->last_stream = stream;
      made->behind_write = bit;
      if (below(2) == 0) {
        Block& scratch = create();
        streams_.launch("scratch", {{scratch.data, scratch.size.count(), true}}, [] {});
        pager_.storages().destroy(scratch);
      }
      launch(arguments, made.get());
      tensors_.push_back(std::move(made));
    } catch (const OverBudget&) {
      ++refused_;
      return;
    }
    claim(*tensors_.back());
  }
  void claim(Tensor& tensor) {
    tensor.storage.data = tensor.storage.block->data;
    pager_.storages().claim(*tensor.storage.block, &tensor.storage);
  }
  void destroy(std::size_t index) {
    pager_.storages().destroy(*tensors_[index]->storage.block);
    tensors_.erase(tensors_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::mt19937_64 random_{GetParam().seed};
  DevicePager device_{GetParam().schedule, kBudget, GetParam().seed % 3 == 0 ? 64_KiB : 64_MiB};
  WorldStreams& streams_ = device_.streams;
  pager::Pager& pager_ = device_.pager;
  pager::WorkingRoom room_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::uint32_t last_value_ = 0;
  std::uint64_t refused_ = 0;
  std::atomic<std::uint64_t> wrong_{0};
};

TEST_P(DeviceProgramTest, FindsTheBytesOfItsOrderAndNoRace) {
  for (int step = 0; step < 600; ++step) {
    if (tensors_.size() > 24 || (!tensors_.empty() && below(5) == 0))
      destroy(below(tensors_.size()));
    else
      op();
    if (below(100) == 0) pager_.page_out_all();
    ASSERT_FALSE(HasFatalFailure());
  }
  const pager::Statistics counts = pager_.accounts().statistics();
  EXPECT_GT(counts.page_outs, 50u);
  EXPECT_GT(counts.page_ins, 50u);
  EXPECT_LE(counts.peak_bytes, kBudget.count());
  EXPECT_EQ(counts.over_budget_bytes, 0u);
  EXPECT_EQ(device_.timeline.host_waits(), 0u);
  EXPECT_LT(refused_, 60u);
  while (!tensors_.empty()) {
    streams_.compute_on(tensors_.back()->last_stream);
    {
      PinSet pins(pager_, pager::Temporaries::kKeep);
      pins.see(*tensors_.back()->storage.block, Access::kRead);
      pins.admit();
      launch({tensors_.back().get()}, nullptr);
    }
    destroy(tensors_.size() - 1);
  }
  EXPECT_EQ(device_.races(), "\"races\": 0");
  EXPECT_EQ(wrong_, 0u) << "kernels found other bytes than the program's order says";
  EXPECT_EQ(pager_.accounts().statistics().spill_bytes, 0u);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* const schedule : {"now", "1", "2"})
    for (const std::size_t streams : {std::size_t{1}, std::size_t{3}})
      for (unsigned seed = 1; seed <= random_cases(6, 2); ++seed) all.push_back({seed, schedule, streams});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Programs, DeviceProgramTest, testing::ValuesIn(cases()), [](const auto& instance) {
  const Case& one = instance.param;
  return "Schedule" + one.schedule + "Streams" + std::to_string(one.streams) + "Seed" + std::to_string(one.seed);
});

}  // namespace
}  // namespace tensorpager::memory
