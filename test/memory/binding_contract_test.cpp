// What every binding must do with its 15 functions, called as the pager calls them: bytes are where they belong, absent
// blocks cannot be read, and memory that is given back is there for others.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "holders.h"
#include "tensorpager/arena/witness.h"
#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/memory/stable_binding.h"
#include "tensorpager/pager/placed_binding.h"

namespace tensorpager::memory {
namespace {

using namespace base;
using arena::Piece;
using arena::Place;
using pager::Access;
using pager::Block;

struct BindingCase {
  std::string name;
  std::unique_ptr<pager::Binding> (*make)(arena::AddressSpace&, Storages&);
  bool poisons;
  arena::AddressSpace::Where where = arena::AddressSpace::Where::kApart;
};

void PrintTo(const BindingCase& one, std::ostream* out) { *out << one.name; }

class BindingContract : public testing::TestWithParam<BindingCase> {
 protected:
  struct Tensor {
    Block block;
    Storage storage;
    unsigned char value = 0;
    std::vector<std::byte> below;  // its bytes while it is absent
  };

  void SetUp() override {
    if (pager::PlacedBinding* const placed = binding_->placed()) placed->places().set_limit(64_MiB);
    binding_->poison(GetParam().poisons);
  }

  Place place_for(Bytes bytes) {
    if (binding_->placed() == nullptr) return {.bytes = bytes};
    return std::get<Place>(binding_->placed()->places().find({.bytes = bytes}, 0));
  }
  std::unique_ptr<Tensor> make(Bytes size, unsigned char value) {
    auto tensor = std::make_unique<Tensor>();
    Block& block = tensor->block;
    block.size = size;
    block.charged = binding_->charge_for(size);
    block.data = binding_->acquire(block, place_for(block.charged), 64_MiB);
    space_.set_owner(block.data, &block);
    tensor->storage = {&block, block.data};
    if (binding_->placed() != nullptr) binding_->placed()->holders()->claim(block, &tensor->storage);
    fill(*tensor, value);
    return tensor;
  }
  static void fill(Tensor& tensor, unsigned char value) {
    tensor.value = value;
    std::memset(tensor.block.data, value, tensor.block.size.count());
  }
  static bool holds(const Tensor& tensor) {
    const std::vector<unsigned char> expected(tensor.block.size.count(), tensor.value);
    return std::memcmp(tensor.block.data, expected.data(), expected.size()) == 0;
  }
  void page_out(Tensor& tensor) {
    Block& block = tensor.block;
    binding_->begin_page_out(block);
    tensor.below.assign(block.data, block.data + block.charged.count());
    block.word = pager::kAbsent;
    const pager::Relocation away = binding_->begin_unbind(block);
    away.carry_out();
    away.end();
    if (away.to != nullptr) binding_->discard(block, away.there());
  }
  std::vector<Piece> stage(Tensor& tensor) {
    return binding_->stage(tensor.block, place_for(tensor.block.charged), 64_MiB);
  }
  void page_in(Tensor& tensor, Access access) {
    std::vector<Piece> pieces = stage(tensor);
    const std::byte* from = tensor.below.data();
    for (const Piece& piece : pieces) {
      std::memcpy(piece.at, from, piece.bytes.count());
      from += piece.bytes.count();
    }
    const pager::Relocation there = binding_->begin_bind(tensor.block, std::move(pieces), access);
    there.carry_out();
    there.end();
    tensor.block.word = access == Access::kRead ? pager::kClean : 0;
  }
  void make_writable(Tensor& tensor) {
    binding_->make_writable(tensor.block);
    tensor.block.word = 0;
  }
  void destroy(std::unique_ptr<Tensor> tensor) {
    if (tensor->block.data != nullptr) space_.set_owner(tensor->block.data, nullptr);
    binding_->release(tensor->block);
  }

  arena::AddressSpace space_{GetParam().where};
  Storages storages_;
  std::unique_ptr<pager::Binding> binding_ = GetParam().make(space_, storages_);
};

TEST_P(BindingContract, ChargesNoLessThanWasAskedFor) {
  for (const Bytes size : {1_B, 4_KiB, 100_KiB, 5_MiB}) {
    EXPECT_GE(binding_->charge_for(size), size);
    EXPECT_EQ(binding_->charge_for(binding_->charge_for(size)), binding_->charge_for(size));
  }
}

TEST_P(BindingContract, IsEitherPlacedOrMovesPages) {
  EXPECT_NE(binding_->placed() == nullptr, binding_->page_mover() == nullptr);
}

TEST_P(BindingContract, BytesComeBackAndTheProgramFindsThem) {
  for (const Access access : {Access::kRead, Access::kWrite}) {
    auto tensor = make(100_KiB, 3);
    page_out(*tensor);
    const bool is_notified = binding_->placed() != nullptr;
    EXPECT_EQ(tensor->storage.data == nullptr, is_notified) << "the holder";
    page_in(*tensor, access);
    EXPECT_TRUE(holds(*tensor));
    EXPECT_EQ(tensor->storage.data, tensor->block.data);
    EXPECT_EQ(space_.owner_at(tensor->block.data), &tensor->block);
    if (access == Access::kRead) make_writable(*tensor);
    fill(*tensor, 4);
    EXPECT_TRUE(holds(*tensor));
    destroy(std::move(tensor));
  }
}

TEST_P(BindingContract, APageOutThatIsCancelledLeavesAWritableBlock) {
  auto tensor = make(100_KiB, 3);
  binding_->begin_page_out(tensor->block);
  EXPECT_TRUE(holds(*tensor)) << "it is only read";
  make_writable(*tensor);
  EXPECT_TRUE(holds(*tensor));
  fill(*tensor, 4);
  EXPECT_TRUE(holds(*tensor));
  destroy(std::move(tensor));
}

TEST_P(BindingContract, WhatIsDiscardedCanBeStagedAgain) {
  auto tensor = make(100_KiB, 3);
  page_out(*tensor);
  for (int i = 0; i < 700; ++i) {  // more than there is memory for
    const std::vector<Piece> pieces = stage(*tensor);
    Bytes staged;
    for (const Piece& piece : pieces) staged += piece.bytes;
    EXPECT_EQ(staged, tensor->block.charged);
    binding_->discard(tensor->block, pieces);
  }
  EXPECT_LE(arena::resident_size(space_.begin(), space_.end()), 2_MiB);
  page_in(*tensor, Access::kRead);
  EXPECT_TRUE(holds(*tensor));
  destroy(std::move(tensor));
}

TEST_P(BindingContract, AbsentBlocksCanDie) {
  auto tensor = make(100_KiB, 3);
  page_out(*tensor);
  destroy(std::move(tensor));
  destroy(make(100_KiB, 4));
}

TEST_P(BindingContract, AnAbsentBlockTakesOverTheMemoryOfAnother) {
  auto tensor = make(100_KiB, 3);
  page_out(*tensor);
  const std::byte* const address = tensor->block.data;
  auto fresh = make(100_KiB, 4);
  space_.set_owner(fresh->block.data, nullptr);
  const pager::Relocation over = binding_->begin_take_over(tensor->block, fresh->block);
  over.carry_out();
  over.end();
  tensor->block.word = 0;
  tensor->value = 4;
  EXPECT_TRUE(holds(*tensor));
  EXPECT_EQ(fresh->block.data, nullptr);
  EXPECT_EQ(tensor->storage.data, tensor->block.data);
  EXPECT_EQ(space_.owner_at(tensor->block.data), &tensor->block);
  EXPECT_TRUE(tensor->block.data == address || binding_->placed() != nullptr);
  fill(*tensor, 5);
  auto other = make(100_KiB, 6);
  EXPECT_TRUE(holds(*tensor)) << "nobody else is given its memory";
  destroy(std::move(other));
  page_out(*tensor);
  page_in(*tensor, Access::kWrite);
  EXPECT_TRUE(holds(*tensor));
  destroy(std::move(tensor));
}

TEST_P(BindingContract, NoBlockHasAnothersBytesHoweverTheyComeAndGo) {
  std::mt19937 random(11);
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (int i = 0; i < 600; ++i) {
    if (tensors.size() < 8 || (tensors.size() < 24 && random() % 4 == 0)) {
      tensors.push_back(make(Bytes(1 + random() % 300'000), static_cast<unsigned char>(random())));
    } else {
      std::swap(tensors[random() % tensors.size()], tensors.back());
      Tensor& tensor = *tensors.back();
      const bool is_absent = tensor.block.is_absent();
      if (random() % 5 == 0) {
        destroy(std::move(tensors.back()));
        tensors.pop_back();
      } else if (is_absent) {
        page_in(tensor, random() % 2 == 0 ? Access::kRead : Access::kWrite);
      } else if (tensor.block.is_clean()) {
        make_writable(tensor);
        fill(tensor, static_cast<unsigned char>(random()));
      } else {
        page_out(tensor);
      }
    }
    for (const auto& tensor : tensors) ASSERT_TRUE(tensor->block.is_absent() || holds(*tensor)) << i;
  }
  for (auto& tensor : tensors) destroy(std::move(tensor));
}

std::vector<BindingCase> binding_cases() {
  static constexpr auto kStable = [](arena::AddressSpace& space, Storages&) -> std::unique_ptr<pager::Binding> {
    return std::make_unique<StableBinding>(space);
  };
  static constexpr auto kRebinding = [](arena::AddressSpace& space, Storages& all) -> std::unique_ptr<pager::Binding> {
    return std::make_unique<RebindingBinding>(space, all);
  };
  static constexpr auto kPassing = [](arena::AddressSpace& space, Storages& all) -> std::unique_ptr<pager::Binding> {
    return std::make_unique<RebindingBinding>(space, all, PlaceReuse::kDuringCopy);
  };
  return {{"Stable", kStable, false},
          {"StableAnywhere", kStable, false, arena::AddressSpace::Where::kAnywhere},
          {"StablePoisoning", kStable, true},
          {"Rebinding", kRebinding, false},
          {"RebindingPoisoning", kRebinding, true},
          {"PassingPlacesOn", kPassing, false}};
}

INSTANTIATE_TEST_SUITE_P(All, BindingContract, testing::ValuesIn(binding_cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace tensorpager::memory
