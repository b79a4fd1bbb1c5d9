// Holders that stand for storages: they know their block's address only as they are told it.
#pragma once

#include <cstddef>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/holders.h"

namespace tensorpager::memory {

constexpr base::Bytes kBlock{std::uint64_t{64} << 10};
constexpr base::Bytes blocks(std::uint64_t n) { return base::Bytes(n * kBlock.count()); }

struct Storage {
  pager::Block* block = nullptr;
  std::byte* data = nullptr;
};

class Storages final : public pager::Holders {
 public:
  bool claim(pager::Block& block, void* holder) override {
    auto& storage = *static_cast<Storage*>(holder);
    if (storage.block != &block) return false;
    block.holder = holder;
    return true;
  }
  void give_up(pager::Block& block) override { block.holder = nullptr; }
  bool has(const pager::Block& block) const override {
    return block.holder != nullptr && static_cast<Storage*>(block.holder)->block == &block;
  }
  void set_data(pager::Block& block, std::byte* data) override { static_cast<Storage*>(block.holder)->data = data; }
  void stop_raising(std::span<pager::Block* const>) override {}
  void forget(pager::Block& block) noexcept override { block.holder = nullptr; }
};

}  // namespace tensorpager::memory
