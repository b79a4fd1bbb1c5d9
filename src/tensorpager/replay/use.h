// What a call does with each storage among its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensorpager/replay/captured_op.h"
#include "tensorpager/replay/op_rules.h"

namespace tensorpager::replay {

enum class Use : std::uint8_t {
  kRead,
  kWritten,
  kScratch,
  kFilled,  // all of it is written, and nothing of it is read
};

/// By number of the captured op, which has so many storages. `fills`: see OpRule::fills_in. One that is written as well
/// as scratch is written.
inline std::vector<Use> uses_of(const OpRule& rule, bool fills, const CapturedOp& op, std::size_t storages) {
  std::vector<Use> uses(storages, Use::kRead);
  const auto set = [&](const std::vector<std::uint32_t>& arguments, Use use) {
    for (const std::uint32_t argument : arguments)
      op.for_each_storage(argument, [&](std::uint32_t number) { uses[number] = use; });
  };
  set(rule.scratch, Use::kScratch);
  set(rule.written, fills ? Use::kFilled : Use::kWritten);
  return uses;
}

}  // namespace tensorpager::replay
