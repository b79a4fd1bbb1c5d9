#include "tensorpager/plan/plan_io.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"

namespace tensorpager::plan {
namespace {

constexpr std::string_view kKind = "tensorpager-plan";
constexpr std::uint64_t kVersion = 1;
/// The same limits as in traces, so that sums stay in 64 bits.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 60;
constexpr std::uint64_t kMaxRowBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kMaxOps = UINT32_MAX;
constexpr std::uint64_t kMaxNanoseconds = std::uint64_t{1} << 62;

constexpr std::array kFills = {std::pair{Fill::kBoundary, "boundary"}, std::pair{Fill::kPageIn, "page_in"},
                               std::pair{Fill::kBorn, "born"}};
constexpr std::array kLeaves = {std::pair{Leave::kBoundary, "boundary"}, std::pair{Leave::kPageOut, "page_out"},
                                std::pair{Leave::kDrop, "drop"}, std::pair{Leave::kDies, "dies"}};

constexpr std::array kTechniques = {std::pair{Technique::kNone, "none"},
                                    std::pair{Technique::kPacked, "packed"},
                                    std::pair{Technique::kPackedForLess, "packed_for_less"},
                                    std::pair{Technique::kShorterTails, "shorter_tails"},
                                    std::pair{Technique::kOverTransfers, "over_transfers"},
                                    std::pair{Technique::kOverTransfersAgain, "over_transfers_again"},
                                    std::pair{Technique::kOnlineByNextUse, "online_by_next_use"},
                                    std::pair{Technique::kOnlineByRecency, "online_by_recency"}};

template <typename Names, typename Value>
const char* find_name(const Names& names, Value value) {
  const auto* found = std::ranges::find(names, value, [](const auto& pair) { return pair.first; });
  TENSORPAGER_CHECK(found != names.end());
  return found->second;
}

template <typename Names>
auto read_name(base::RecordReader& records, const char* key, const Names& names) {
  const std::string_view text = records.text(key);
  const auto* found = std::ranges::find(names, text, [](const auto& pair) { return pair.second; });
  if (found == names.end()) records.fail(key, "'" + std::string(text.substr(0, 40)) + "' is unknown");
  return found->first;
}

class PlanReader {
 public:
  PlanReader(std::istream& in, const std::string& path) : records_(in, path, kKind, kVersion) {}

  Plan read() {
    bool has_head = false;
    while (records_.next()) {
      if (records_.type() == "plan" && !std::exchange(has_head, true))
        read_head();
      else if (records_.type() == "replay" && has_head && plan_.rows.empty())
        read_replay();
      else if (records_.type() == "row" && has_head)
        read_row();
      else if (records_.type() == "predicted")
        read_prediction();
      else
        records_.fail("record", "'" + std::string(records_.type().substr(0, 40)) +
                                    "' is none of row, predicted, end, or plan and replay at the beginning");
      records_.finish_record();
    }
    if (!has_head) records_.fail("plan", "the record is missing");
    if (newest_wait_ > page_outs_)
      records_.fail("wait", "ticket " + std::to_string(newest_wait_) + " where there are " +
                                std::to_string(page_outs_) + " page-outs");
    return std::move(plan_);
  }

 private:
  base::Bytes bytes(const char* key, std::uint64_t limit) { return base::Bytes(records_.number(key, limit)); }

  void read_head() {
    plan_.shared_boundary = records_.flag("shared_boundary");
    plan_.planner = records_.text("planner");
    if (records_.has("technique")) plan_.technique = read_name(records_, "technique", kTechniques);
    plan_.machine = records_.text("machine");
    plan_.budget = bytes("budget", kMaxBytes + 1);
    plan_.slab = bytes("slab", kMaxBytes);
    plan_.reserve = bytes("reserve", kMaxBytes);
    if (plan_.slab + plan_.reserve > plan_.budget) records_.fail("budget", "is below slab and reserve");
    plan_.ops = static_cast<std::uint32_t>(records_.number("ops", kMaxOps));
  }

  std::uint32_t op(const char* key, std::uint32_t least) {
    const auto op = static_cast<std::uint32_t>(records_.number(key, std::uint64_t{plan_.ops} + 1));
    if (op < least) records_.fail(key, std::to_string(op) + " is below " + std::to_string(least));
    return op;
  }

  void read_replay() {
    Replay replay{.op = op("op", 0), .before = op("before", 0)};
    if (replay.before <= replay.op) records_.fail("before", "is not after op " + std::to_string(replay.op));
    if (!plan_.replays.empty() && replay.before < plan_.replays.back().before)
      records_.fail("before", "the replay is out of order");
    for (const std::uint32_t id : records_.numbers("keeps", UINT32_MAX)) replay.keeps.push_back(StorageId{id});
    plan_.replays.push_back(std::move(replay));
  }

  void read_row() {
    Row row;
    if (!records_.flag("temporary"))
      row.storage = StorageId{static_cast<std::uint32_t>(records_.word_number("storage", UINT32_MAX))};
    row.bytes = bytes("bytes", kMaxRowBytes);
    row.offset = records_.number("offset", kMaxBytes);
    row.begin = op("begin", 0);
    row.need = op("need", row.begin);
    row.end = op("end", row.begin + 1);
    row.wait = static_cast<std::uint32_t>(records_.number_or("wait", UINT32_MAX, 0));
    row.fill = read_name(records_, "fill", kFills);
    row.leave = read_name(records_, "leave", kLeaves);
    if (row.fill == Fill::kBoundary && row.begin != 0) records_.fail("begin", "is not 0, and fill=boundary");
    if (row.leave == Leave::kBoundary && row.end != plan_.ops)
      records_.fail("end", "is not the number of ops, and leave=boundary");
    if (row.storage == kTemporary && (row.fill != Fill::kBorn || row.leave != Leave::kDies))
      records_.fail("temporary", "must have fill=born leave=dies");
    if (!plan_.rows.empty() && order_of(row) < order_of(plan_.rows.back()))
      records_.fail("begin",
                    "the row is out of order: rows are sorted by begin; boundary, page_in, born; need; storage");
    page_outs_ += row.leave == Leave::kPageOut ? 1 : 0;
    newest_wait_ = std::max(newest_wait_, row.wait);
    plan_.rows.push_back(row);
  }

  void read_prediction() {
    Prediction& predicted = plan_.predicted;
    predicted.step = std::chrono::nanoseconds(records_.number("step_ns", kMaxNanoseconds));
    predicted.compute = std::chrono::nanoseconds(records_.number("compute_ns", kMaxNanoseconds));
    predicted.page_out = bytes("page_out", kMaxBytes);
    predicted.page_in = bytes("page_in", kMaxBytes);
    predicted.peak = bytes("peak", kMaxBytes);
  }

  base::RecordReader records_;
  Plan plan_;
  std::uint32_t page_outs_ = 0;
  std::uint32_t newest_wait_ = 0;
};

}  // namespace

const char* name_of(Fill fill) { return find_name(kFills, fill); }
const char* name_of(Leave leave) { return find_name(kLeaves, leave); }
const char* name_of(Technique technique) { return find_name(kTechniques, technique); }

Plan read_plan(std::istream& in, const std::string& path) { return PlanReader(in, path).read(); }

Plan read_plan_file(const std::string& path) {
  std::ifstream in;
  base::open_for_reading(in, path);
  return read_plan(in, path);
}

std::string write_plan(const Plan& plan) {
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  const std::string technique =
      plan.technique == Technique::kNone ? "" : std::string(" technique=") + name_of(plan.technique);
  std::string text = base::header_line(kKind, kVersion);
  text += "plan planner=" + plan.planner + technique + " machine=" + plan.machine +
          " budget=" + number(plan.budget.count()) + " slab=" + number(plan.slab.count()) +
          " reserve=" + number(plan.reserve.count()) + " ops=" + number(plan.ops) +
          (plan.shared_boundary ? " shared_boundary\n" : "\n");
  for (const Replay& replay : plan.replays) {
    text += "replay op=" + number(replay.op) + " before=" + number(replay.before);
    for (std::size_t i = 0; i < replay.keeps.size(); ++i)
      text += (i == 0 ? " keeps=" : ",") + number(trace::index(replay.keeps[i]));
    text += '\n';
  }
  for (const Row& row : plan.rows) {
    text += "row " + (row.storage == kTemporary ? "temporary" : number(trace::index(row.storage)));
    text += " bytes=" + number(row.bytes.count()) + " offset=" + number(row.offset) + " begin=" + number(row.begin) +
            " need=" + number(row.need) + " end=" + number(row.end);
    if (row.wait != 0) text += " wait=" + number(row.wait);
    text += std::string(" fill=") + name_of(row.fill) + " leave=" + name_of(row.leave) + "\n";
  }
  const Prediction& predicted = plan.predicted;
  text += "predicted step_ns=" + number(static_cast<std::uint64_t>(predicted.step.count())) +
          " compute_ns=" + number(static_cast<std::uint64_t>(predicted.compute.count())) +
          " page_out=" + number(predicted.page_out.count()) + " page_in=" + number(predicted.page_in.count()) +
          " peak=" + number(predicted.peak.count()) + "\n";
  return text + "end\n";
}

}  // namespace tensorpager::plan
