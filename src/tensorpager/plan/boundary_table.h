// The boundary table: which storages are resident, and at which offsets, whenever one window ends and another begins.
// One table serves all classes of a program's windows, so that a plan of any class may follow a plan of any other
// without a copy.
//
//   train ...|   table   |... train ...|   table   |... evaluate ...|   table   |...
//
// A storage has the same identity in the traces of all classes. Every trace lists every storage that lives through its
// window, including those that none of its ops uses.
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
  std::vector<BoundaryEntry> entries = {};  // by offset; what stays resident longest into the next window comes first

  friend bool operator==(const BoundaryTable&, const BoundaryTable&) = default;
};

/// By storage: the offset at which it stays over the window's end; nullopt if it does not stay.
using Boundary = std::vector<std::optional<std::uint64_t>>;

/// The storages with an identity that the plan keeps over its window's end, stacked from the bottom.
BoundaryTable boundary_of(const trace::Trace& trace, const Plan& plan);

/// The first half of the entries: without those that leave earliest in the next window.
BoundaryTable half_of(const BoundaryTable& table);

/// By storage of the trace: its offset in the table, or nullopt. Throws InvalidArgument if a storage of the table is
/// not in the trace, or has another size there.
Boundary offsets_in(const BoundaryTable& table, const trace::Trace& trace);

/// The table as a text file (docs/formats.md). Reading throws InvalidArgument with file, line and field.
BoundaryTable read_boundary(std::istream& in, const std::string& path);
BoundaryTable read_boundary_file(const std::string& path);
std::string write_boundary(const BoundaryTable& table);

}  // namespace tensorpager::plan
