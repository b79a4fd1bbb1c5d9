#include "tensorpager/trace/trace_io.h"

#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/flop_rates.h"
#include "tensorpager/base/records.h"

namespace tensorpager::trace {
namespace {

constexpr std::string_view kKind = "tensorpager-trace";
constexpr std::uint64_t kVersion = 1;
/// More than any machine has, and low enough that sums over a trace stay in 64 bits.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kMaxStorages = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxFlops = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxNanoseconds = 1'000'000'000'000'000;  // eleven days

constexpr std::array kPurities = {std::pair{Purity::kPure, "pure"}, std::pair{Purity::kScratch, "scratch"},
                                  std::pair{Purity::kFills, "fills"}};

class TraceReader {
 public:
  TraceReader(std::istream& in, const std::string& path) : records_(in, path, kKind, kVersion) {}

  Trace read() {
    while (records_.next()) {
      if (records_.type() == "granule")
        read_granule();
      else if (records_.type() == "slab")
        read_slab();
      else if (records_.type() == "storage")
        read_storage();
      else if (records_.type() == "op")
        read_op();
      else
        records_.fail("record", "'" + std::string(records_.type().substr(0, 40)) +
                                    "' is none of granule, slab, storage, op, end");
      records_.finish_record();
    }
    if (trace_.ops.empty()) records_.fail("end", "there is no op");
    expect(checker_->finish());
    return std::move(trace_);
  }

 private:
  void expect(const std::string& wrong) const {
    if (wrong.empty()) return;
    const std::size_t colon = wrong.find(": ");
    records_.fail(wrong.substr(0, colon), wrong.substr(colon + 2));
  }

  void read_granule() {
    const std::uint64_t granule = records_.word_number("granule", (std::uint64_t{1} << 30) + 1);
    if (granule == 0 || (granule & (granule - 1)) != 0) records_.fail("granule", "is not a power of two");
    if (!trace_.storages.empty()) records_.fail("granule", "must come before the storages");
    trace_.granule = base::Bytes(granule);
  }

  void read_slab() {
    if (!trace_.storages.empty()) records_.fail("slab", "must come before the storages");
    trace_.slab = base::Bytes(records_.word_number("slab", kMaxBytes));
  }

  void read_storage() {
    if (checker_) records_.fail("storage", "all storages come before the first op");
    const bool entry = records_.flag("entry");
    const std::uint64_t id = records_.word_number("storage", kMaxStorages);
    if (id != trace_.storages.size())
      records_.fail("storage", "number " + std::to_string(id) + " where " + std::to_string(trace_.storages.size()) +
                                   " comes next");
    Storage storage{.bytes = base::Bytes(records_.number("bytes", kMaxBytes)), .entry = entry};
    if (records_.has("identity")) {
      storage.identity = records_.number("identity", UINT64_MAX);
      if (!entry) records_.fail("identity", "is for a storage with entry");
      if (!identities_.insert(*storage.identity).second)
        records_.fail("identity", std::to_string(*storage.identity) + " is given twice");
    }
    if (records_.has("name")) storage.name = records_.text("name");
    total_bytes_ += storage.bytes.count();
    if (total_bytes_ >= (std::uint64_t{1} << 60)) records_.fail("bytes", "the storages' sum is above 2^60");
    trace_.storages.push_back(std::move(storage));
  }

  std::vector<StorageId> ids(std::string_view key) {
    std::vector<StorageId> all;
    for (const std::uint32_t id : records_.numbers(key, trace_.storages.size()))
      all.push_back(static_cast<StorageId>(id));
    return all;
  }

  Precision precision() {
    if (const auto named = base::precision_named(records_.text("precision"))) return *named;
    records_.fail("precision", "is none of float32, tf32, bfloat16, float16, float64");
  }

  void read_op() {
    if (!checker_) checker_.emplace(trace_.storages);
    Op op;
    // Flags are read first: the remaining word is the name.
    for (const auto& [purity, name] : kPurities) {
      if (!records_.flag(name)) continue;
      if (op.purity != Purity::kNever) records_.fail(name, "the op has another of pure, scratch and fills already");
      op.purity = purity;
    }
    op.random = records_.flag("random");
    op.list = records_.flag("list");
    op.backward = records_.flag("backward");
    op.optimizer = records_.flag("optimizer");
    op.name = records_.word("name");
    op.op_class = base::class_of(op.name);
    op.reads = ids("reads");
    op.writes = ids("writes");
    op.births = ids("births");
    op.deaths = ids("deaths");
    op.renews = ids("renews");
    op.temporary = base::Bytes(records_.number_or("temporary", kMaxBytes, 0));
    op.time = std::chrono::nanoseconds(records_.number_or("ns", kMaxNanoseconds, 0));
    op.flops = records_.number_or("flops", kMaxFlops, 0);
    op.moved = base::Bytes(records_.number_or("moved", kMaxBytes, 0));
    if (records_.has("precision")) op.precision = precision();
    expect(checker_->add(op));
    trace_.ops.push_back(std::move(op));
  }

  base::RecordReader records_;
  Trace trace_;
  std::optional<Checker> checker_;  // from the first op on
  std::uint64_t total_bytes_ = 0;
  std::unordered_set<std::uint64_t> identities_;
};

void write_ids(std::string& text, const char* key, const std::vector<StorageId>& ids) {
  if (ids.empty()) return;
  text += key;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += i == 0 ? '=' : ',';
    text += std::to_string(index(ids[i]));
  }
}

void write_number(std::string& text, const char* key, std::uint64_t number) {
  if (number != 0) text += key + std::to_string(number);
}

}  // namespace

Trace read_trace(std::istream& in, const std::string& path) { return TraceReader(in, path).read(); }

Trace read_trace_file(const std::string& path) {
  std::ifstream in;
  base::open_for_reading(in, path);
  return read_trace(in, path);
}

std::string write_trace(const Trace& trace) {
  std::string text = base::header_line(kKind, kVersion);
  text += "granule " + std::to_string(trace.granule.count()) + "\n";
  if (trace.slab > base::Bytes(0)) text += "slab " + std::to_string(trace.slab.count()) + "\n";
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    const Storage& storage = trace.storages[i];
    text += "storage " + std::to_string(i) + " bytes=" + std::to_string(storage.bytes.count());
    if (storage.entry) text += " entry";
    if (storage.identity) text += " identity=" + std::to_string(*storage.identity);
    if (!storage.name.empty()) text += " name=" + storage.name;
    text += '\n';
  }
  for (const Op& op : trace.ops) {
    text += "op " + op.name;
    write_ids(text, " reads", op.reads);
    write_ids(text, " writes", op.writes);
    write_ids(text, " births", op.births);
    write_ids(text, " deaths", op.deaths);
    write_ids(text, " renews", op.renews);
    write_number(text, " temporary=", op.temporary.count());
    write_number(text, " ns=", static_cast<std::uint64_t>(op.time.count()));
    write_number(text, " flops=", op.flops);
    write_number(text, " moved=", op.moved.count());
    if (op.precision != Precision::kFloat32) text.append(" precision=").append(base::precision_name(op.precision));
    for (const auto& [purity, name] : kPurities) {
      if (op.purity == purity) text += std::string(" ") + name;
    }
    if (op.random) text += " random";
    if (op.list) text += " list";
    if (op.backward) text += " backward";
    if (op.optimizer) text += " optimizer";
    text += '\n';
  }
  return text + "end\n";
}

}  // namespace tensorpager::trace
