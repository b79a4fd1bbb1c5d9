#include "tensorpager/plan/boundary_table.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"

namespace tensorpager::plan {
namespace {

using base::Bytes;
using trace::index;

constexpr std::string_view kTableKind = "tensorpager-boundary";
constexpr std::uint64_t kTableVersion = 1;
constexpr std::uint64_t kMaxTableBytes = std::uint64_t{1} << 50;

}  // namespace

BoundaryTable boundary_of(const trace::Trace& trace, const Plan& plan) {
  struct Resident {
    std::uint32_t until;
    BoundaryEntry entry;
  };
  std::vector<Resident> residents;
  for (const Row& row : plan.rows) {
    if (row.fill != Fill::kBoundary) continue;
    const auto& identity = trace.storages[index(row.storage)].identity;
    if (identity) residents.push_back({row.end, {.identity = *identity, .bytes = row.bytes}});
  }
  std::ranges::stable_sort(residents, std::ranges::greater(), &Resident::until);
  BoundaryTable table;
  std::uint64_t top = 0;
  for (Resident& resident : residents) {
    resident.entry.offset = std::exchange(top, top + resident.entry.bytes.count());
    table.entries.push_back(resident.entry);
  }
  return table;
}

BoundaryTable half_of(const BoundaryTable& table) {
  BoundaryTable half = table;
  half.entries.resize(table.entries.size() / 2);
  return half;
}

Boundary offsets_in(const BoundaryTable& table, const trace::Trace& trace) {
  Boundary offsets(trace.storages.size());
  std::map<std::uint64_t, std::size_t> by_identity;
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    if (trace.storages[i].identity) by_identity.emplace(*trace.storages[i].identity, i);
  }
  for (const BoundaryEntry& entry : table.entries) {
    const auto found = by_identity.find(entry.identity);
    const std::string name = "the boundary table's storage with identity " + std::to_string(entry.identity);
    if (found == by_identity.end() || !trace.storages[found->second].entry)
      throw base::InvalidArgument(name + " does not live through the trace's window; record all that is alive in it");
    const Bytes charged = base::round_up(trace.storages[found->second].bytes, trace.granule);
    if (charged != entry.bytes || charged < base::kMinPagedBytes)
      throw base::InvalidArgument(name + " has " + std::to_string(entry.bytes.count()) + " bytes there and " +
                                  std::to_string(charged.count()) + " in the trace");
    offsets[found->second] = entry.offset;
  }
  return offsets;
}

BoundaryTable read_boundary(std::istream& in, const std::string& path) {
  base::RecordReader records(in, path, kTableKind, kTableVersion);
  BoundaryTable table;
  std::set<std::uint64_t> identities;
  std::uint64_t top = 0;
  while (records.next()) {
    if (records.type() != "storage")
      records.fail("record", "'" + std::string(records.type().substr(0, 40)) + "' is none of storage, end");
    const BoundaryEntry entry{.identity = records.number("identity", UINT64_MAX),
                              .bytes = Bytes(records.number("bytes", kMaxTableBytes)),
                              .offset = records.number("offset", kMaxTableBytes)};
    if (!identities.insert(entry.identity).second) records.fail("identity", "is given twice");
    if (entry.offset < top) records.fail("offset", "is below the end of the storage before it");
    top = entry.offset + entry.bytes.count();
    table.entries.push_back(entry);
    records.finish_record();
  }
  return table;
}

BoundaryTable read_boundary_file(const std::string& path) {
  std::ifstream in;
  base::open_for_reading(in, path);
  return read_boundary(in, path);
}

std::string write_boundary(const BoundaryTable& table) {
  std::string text = base::header_line(kTableKind, kTableVersion);
  for (const BoundaryEntry& entry : table.entries)
    text += "storage identity=" + std::to_string(entry.identity) + " bytes=" + std::to_string(entry.bytes.count()) +
            " offset=" + std::to_string(entry.offset) + "\n";
  return text + "end\n";
}

}  // namespace tensorpager::plan
