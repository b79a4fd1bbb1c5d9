// The signature by which an op is recognised when it begins: its name, and the sizes of the pageable storages that it
// reads or writes, each counted once, in any order.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

struct OpSignature {
  std::uint64_t name = 0;
  std::uint64_t sizes = 0;

  void add(Bytes size);  // the requested size; storages that are never paged are not added
  friend bool operator==(const OpSignature&, const OpSignature&) = default;
};

/// The same in all processes and on all machines.
std::uint64_t name_hash(std::string_view name);

}  // namespace tensorpager::base
