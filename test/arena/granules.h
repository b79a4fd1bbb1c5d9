// Places of an arena in units of its granule.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

constexpr base::Bytes kGranule{16};

using Pieces = std::vector<std::uint64_t>;  // offsets

constexpr base::Bytes units(std::uint64_t n) { return base::Bytes(n * kGranule.count()); }
constexpr std::uint64_t at(std::uint64_t n) { return n * kGranule.count(); }

}  // namespace tensorpager::arena
