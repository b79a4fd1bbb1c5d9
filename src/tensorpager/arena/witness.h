// The kernel's own count of what is resident in a range of addresses: a witness against our count, for tests. Reads
// /proc/self/smaps.
#pragma once

#include <cstddef>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

base::Bytes resident_size(const std::byte* begin, const std::byte* end);

}  // namespace tensorpager::arena
