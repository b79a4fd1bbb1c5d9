// What is resident, and where, whenever one window ends and another begins: one table for all classes of windows of a
// program, so that a plan of any class may follow a plan of any other without a copy.
//
//   train ...|   table   |... train ...|   table   |... evaluate ...|   table   |...
//
// A storage is known over classes by its identity, which their traces give it. Every trace has every storage that lives
// through its window, also what none of its ops uses.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

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

/// What stays at one offset over the window's end, by storage.
using Boundary = std::vector<std::optional<std::uint64_t>>;

/// What a plan has over its window's end, of storages with an identity: stacked from the bottom.
BoundaryTable boundary_of(const trace::Trace& trace, const Plan& plan);

/// The first half of the entries: what is used late in the next window is left out.
BoundaryTable half_of(const BoundaryTable& table);

/// Of each storage of the trace, where the table has it. Throws InvalidArgument where the trace lacks one of its
/// storages, or has it with other bytes.
Boundary offsets_in(const BoundaryTable& table, const trace::Trace& trace);

/// Text files (docs/formats.md). Reading throws InvalidArgument with file, line and field.
BoundaryTable read_boundary(std::istream& in, const std::string& path);
BoundaryTable read_boundary_file(const std::string& path);
std::string write_boundary(const BoundaryTable& table);

}  // namespace tensorpager::plan
