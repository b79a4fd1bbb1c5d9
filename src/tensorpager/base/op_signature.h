// What an op is known by when it begins: its name, and the sizes of the pageable storages that it reads or writes, each
// once, whatever their order.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

struct OpSignature {
  std::uint64_t name = 0;
  std::uint64_t sizes = 0;

  void add(Bytes size);  // as asked for; what is never paged does not count
  friend bool operator==(const OpSignature&, const OpSignature&) = default;
};

/// The same in each process and on each machine.
std::uint64_t name_hash(std::string_view name);

}  // namespace tensorpager::base
