// What is resident, and where, whenever one window ends and another begins: one table for all classes of windows of a
// program, so that a plan of any class may follow a plan of any other without a copy.
//
//   train ...|   table   |... train ...|   table   |... evaluate ...|   table   |...
//
// A storage is known over classes by its identity, which their traces give it. Every trace has every storage that lives
// through its window, also what none of its ops uses.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::plan {

struct BoundaryEntry {
  std::uint64_t identity = 0;
  base::Bytes bytes = {};  // charged
  std::uint64_t offset = 0;

  friend bool operator==(const BoundaryEntry&, const BoundaryEntry&) = default;
};

struct BoundaryTable {
  std::vector<BoundaryEntry> entries = {};  // by offset; what stays the longest into the next window first

  friend bool operator==(const BoundaryTable&, const BoundaryTable&) = default;
};

}  // namespace tensorpager::plan
