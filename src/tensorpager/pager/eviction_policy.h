// Which resident block to page out next. To add one: x_policy.{h,cpp} beside this file and a line in
// test/pager/policy_contract_test.cpp.
#pragma once

#include <cstdint>

#include "tensorpager/pager/block.h"

namespace tensorpager::pager {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// The block became resident. Its `last_use` may change at any time without notice.
  virtual void add(Block& block) = 0;
  /// The block is no longer resident.
  virtual void remove(Block& block) noexcept = 0;
  /// Returns the best resident block without pins; null if there is none. Does not remove it.
  virtual Block* choose() = 0;
  /// Any of the resident blocks, by number below size(): for the fuzzer.
  virtual Block* at(std::size_t index) = 0;
  virtual std::size_t size() const = 0;
};

}  // namespace tensorpager::pager
