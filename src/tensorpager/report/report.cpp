#include "tensorpager/report/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "tensorpager/plan/timing.h"

namespace tensorpager::report {
namespace {

using base::Bytes;
using machine::Nanoseconds;
using plan::Fill;
using plan::kTemporary;
using plan::Leave;
using plan::Row;
using plan::Stall;
using trace::index;

constexpr std::size_t kShown = 10;
/// Begins a continuation line, indented to the begin of the text above.
const std::string kNextLine = "\n" + std::string(16, ' ');
const std::string kNextLineOfPeak = "\n" + std::string(13, ' ');

std::string milliseconds(Nanoseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f ms", std::chrono::duration<double, std::milli>(time).count());
  return text.data();
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

class Text {
 public:
  explicit Text(const Subject& subject) : subject_(subject), trace_(subject.window.trace) {
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) {
      for (const trace::StorageId id : trace_.ops[op].births) born_at_[id] = op;
    }
  }

  std::string write() {
    head();
    peak();
    stalls();
    evictions();
    replays();
    return std::move(text_);
  }

 private:
  void line(const std::string& text) { text_ += text + "\n"; }

  std::string op_name(std::uint32_t op) const {
    return op < trace_.ops.size() ? "op " + std::to_string(op) + " (" + trace_.ops[op].name + ")" : "the window's end";
  }

  std::string owner(const Row& row) const {
    if (row.storage == kTemporary) return "temporaries of " + op_name(row.begin);
    return owner(row.storage);
  }

  std::string owner(trace::StorageId storage) const {
    const std::string& name = trace_.storages[index(storage)].name;
    const std::string id = "storage " + std::to_string(index(storage));
    if (!name.empty()) return id + " " + name;
    const auto born = born_at_.find(storage);
    return born == born_at_.end() ? id + ", alive at the entry" : id + ", made by " + op_name(born->second);
  }

  void head() {
    const plan::Plan& plan = subject_.plan;
    const plan::Prediction& measured = subject_.measured;
    line("plan by " + plan.planner + " for " + subject_.machine.name + ": budget " + base::format_bytes(plan.budget) +
         ", need " + base::format_bytes(subject_.liveness.need()) + ", floor " +
         base::format_bytes(subject_.liveness.floor()));
    line("step " + milliseconds(measured.step) + ", of it compute " + milliseconds(measured.compute) + ", stalled " +
         milliseconds(measured.step - measured.compute) + "; out " + base::format_bytes(measured.page_out) + ", in " +
         base::format_bytes(measured.page_in));
    if (!plan.replays.empty())
      line(std::to_string(plan.replays.size()) +
           " replays: they are ops of their own here, and what they rebuild are storages of their own");
  }

  void peak() {
    const auto& curve = subject_.measured.curve;
    const auto op = static_cast<std::uint32_t>(std::ranges::max_element(curve) - curve.begin());
    line("");
    line("peak: " + base::format_bytes(curve[op]) + " at " + op_name(op) + ", where " +
         base::format_bytes(subject_.liveness.live(op)) + " are live");
    const std::vector<std::uint32_t> page_outs = plan::page_outs_of(subject_.plan.rows);
    const std::vector<std::uint32_t> released = plan::release_ops(subject_.plan.rows, subject_.plan.ops);
    std::map<std::uint32_t, std::uint32_t> release;
    for (std::size_t i = 0; i < page_outs.size(); ++i) release[page_outs[i]] = released[i];
    struct Owner {
      std::uint64_t bytes;
      std::string text;
      std::string why_kept = {};
    };
    std::vector<Owner> owners;
    if (subject_.plan.slab > Bytes(0))
      owners.push_back({subject_.plan.slab.count(), "small storages, in the slab region"});
    for (std::uint32_t i = 0; i < subject_.plan.rows.size(); ++i) {
      const Row& row = subject_.plan.rows[i];
      const bool leaving =
          release.contains(i) && ((op >= row.end && op < release[i]) || op + subject_.plan.ops < release[i]);
      if (!leaving && (op < row.begin || op >= row.end)) continue;
      const bool arriving = row.fill == Fill::kPageIn && op < row.need;
      owners.push_back({row.bytes.count(),
                        owner(row) + (leaving    ? ", leaving since " + op_name(row.end - 1)
                                      : arriving ? ", coming for " + op_name(row.need)
                                                 : ""),
                        leaving || arriving ? "" : why_kept(row.storage, op)});
    }
    std::ranges::stable_sort(owners, std::ranges::greater(), &Owner::bytes);
    std::uint64_t rest = 0;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (i < kShown)
        line("  " + padded(base::format_bytes(Bytes(owners[i].bytes)), 9) + "  " + owners[i].text + owners[i].why_kept);
      else
        rest += owners[i].bytes;
    }
    if (rest > 0)
      line("  " + padded(base::format_bytes(Bytes(rest)), 9) + "  " + std::to_string(owners.size() - kShown) +
           " others");
  }

  void stalls() {
    std::vector<Stall> worst = subject_.stalls;
    std::ranges::stable_sort(worst, std::ranges::greater(), &Stall::time);
    line("");
    line("worst stalls, of " + std::to_string(worst.size()) + ":");
    for (std::size_t i = 0; i < std::min(worst.size(), kShown); ++i) {
      const Row& row = subject_.plan.rows[worst[i].row];
      line("  " + padded(milliseconds(worst[i].time), 12) + "  " + op_name(worst[i].op) + " waits for " +
           (worst[i].cause == Stall::Cause::kPageIn ? "the page-in of " + owner(row)
                                                    : "a page-out from the block of " + owner(row)) +
           ", " + base::format_bytes(row.bytes));
    }
  }

  /// An eviction and the page-in that follows it.
  struct Decision {
    Nanoseconds cost;      // time of its transfers and of the stalls that they cause
    std::uint32_t leaves;  // row
    std::uint32_t comes;   // row
  };

  void evictions() {
    std::vector<Nanoseconds> waited(subject_.plan.rows.size());
    for (const Stall& stall : subject_.stalls) waited[stall.row] += stall.time;
    std::map<trace::StorageId, std::vector<std::uint32_t>> rows_of;
    for (std::uint32_t i = 0; i < subject_.plan.rows.size(); ++i) {
      if (subject_.plan.rows[i].storage != kTemporary) rows_of[subject_.plan.rows[i].storage].push_back(i);
    }
    std::vector<Decision> all;
    for (const auto& [id, rows] : rows_of) {
      for (std::size_t k = 0; k < rows.size(); ++k) {
        const Row& comes = subject_.plan.rows[rows[k]];
        if (comes.fill != Fill::kPageIn) continue;
        const std::uint32_t leaves = rows[(k + rows.size() - 1) % rows.size()];
        Nanoseconds cost = subject_.machine.in.time_of(comes.bytes) + waited[rows[k]];
        if (subject_.plan.rows[leaves].leave == Leave::kPageOut) cost += subject_.machine.out.time_of(comes.bytes);
        all.push_back({cost, leaves, rows[k]});
      }
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &Decision::cost);
    line("");
    line("most expensive evictions, of " + std::to_string(all.size()) + " that come back:");
    for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
      const Row& leaves = subject_.plan.rows[all[i].leaves];
      const Row& comes = subject_.plan.rows[all[i].comes];
      line("  " + padded(milliseconds(all[i].cost), 12) + "  " + owner(comes) + ", " + base::format_bytes(comes.bytes) +
           "," + kNextLine + (leaves.leave == Leave::kDrop ? "is dropped" : "leaves") + " after " +
           op_name(leaves.end - 1) + " and is back for " + op_name(comes.need) + why(leaves.end, comes.need) + ";" +
           kNextLine + rebuilding_instead(comes.storage, leaves.end - 1, comes.need));
    }
  }

  /// Replays before one op, and what they rebuild.
  struct Rebuilt {
    Nanoseconds cost{0};
    std::uint32_t first = 0;  // op
    std::uint32_t count = 0;
    std::vector<trace::StorageId> storages = {};
  };

  void replays() {
    if (subject_.plan.replays.empty()) return;
    std::vector<Rebuilt> all;
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) {
      if (!subject_.window.entries[op].replayed) continue;
      if (op == 0 || !subject_.window.entries[op - 1].replayed) all.push_back({.first = op});
      Rebuilt& last = all.back();
      last.cost += subject_.machine.time_of(trace_.ops[op]);
      ++last.count;
      for (const trace::StorageId id : trace_.ops[op].births) last.storages.push_back(id);
    }
    for (Rebuilt& one : all) {
      // What is not used after them is an argument of theirs.
      std::erase_if(one.storages, [&](trace::StorageId id) {
        const plan::Life& life = subject_.liveness.life(id);
        return !life.pageable || subject_.liveness.uses(id).back().op < one.first + one.count;
      });
      std::ranges::stable_sort(one.storages, std::ranges::greater(), [&](trace::StorageId id) { return bytes_of(id); });
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &Rebuilt::cost);
    line("");
    line("most expensive rebuilds, of " + std::to_string(all.size()) + " before an op:");
    for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) line(describe(all[i]));
  }

  std::string describe(const Rebuilt& one) const {
    std::uint64_t bytes = 0;
    for (const trace::StorageId id : one.storages) bytes += bytes_of(id);
    std::string what = "small storages";
    if (!one.storages.empty()) what = owner(subject_.window.storages[index(one.storages.front())]);
    if (one.storages.size() > 1) what += " and " + std::to_string(one.storages.size() - 1) + " more";
    return "  " + padded(milliseconds(one.cost), 12) + "  " + what + ", " + base::format_bytes(Bytes(bytes)) + "," +
           kNextLine + "rebuilt by " + std::to_string(one.count) + (one.count == 1 ? " replay" : " replays") + " for " +
           op_name(one.first + one.count) + ";" + kNextLine + "paging would take " + paging(Bytes(bytes));
  }

  std::uint64_t bytes_of(trace::StorageId id) const { return subject_.liveness.life(id).bytes; }

  std::string paging(Bytes bytes) const {
    return milliseconds(subject_.machine.out.time_of(bytes) + subject_.machine.in.time_of(bytes)) + " of the links";
  }

  /// Between two uses at ops of the window with replays.
  std::string rebuilding_instead(trace::StorageId id, std::uint32_t from, std::uint32_t to) const {
    const std::optional<Nanoseconds> cost = rebuilding(id, from, to);
    return cost ? "rebuilding it would take " + milliseconds(*cost) + " of compute" : "it cannot be rebuilt";
  }

  std::optional<Nanoseconds> rebuilding(trace::StorageId id, std::uint32_t from, std::uint32_t to) const {
    if (to <= from) return std::nullopt;  // over the window's end
    const trace::StorageId original = subject_.window.storages[index(id)];
    const auto& entries = subject_.window.entries;
    while (from > 0 && entries[from].replayed) --from;
    while (to < entries.size() && entries[to].replayed) ++to;
    const std::uint32_t end = to < entries.size() ? entries[to].op : subject_.plan.ops;
    for (const Rebuild& one : subject_.rebuilds) {
      if (one.storage == original && one.from <= entries[from].op && end <= one.to) return one.cost;
    }
    return std::nullopt;
  }

  /// Of what is resident at an op that does not use it.
  std::string why_kept(trace::StorageId id, std::uint32_t op) const {
    if (id == kTemporary) return "";
    std::optional<std::uint32_t> before;
    for (const plan::Use& use : subject_.liveness.uses(id)) {
      if (use.op == op) return "";
      if (use.op < op) {
        before = use.op;
      } else if (before) {
        const std::optional<Nanoseconds> cost = rebuilding(id, *before, use.op);
        return "," + kNextLineOfPeak + "unused until " + op_name(use.op) + "; paging: " + paging(Bytes(bytes_of(id))) +
               (cost ? ", rebuilding: " + milliseconds(*cost) : "");
      } else {
        break;
      }
    }
    return "";
  }

  /// Explains an eviction by the op in between at which the most bytes are live.
  std::string why(std::uint32_t begin, std::uint32_t end) const {
    const std::uint32_t ops = subject_.plan.ops;
    std::uint32_t worst = begin % ops;
    const std::uint32_t count = end > begin ? end - begin : end + ops - begin;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t op = (begin + i) % ops;
      if (subject_.liveness.live(op) > subject_.liveness.live(worst)) worst = op;
    }
    const Bytes live = subject_.liveness.live(worst);
    if (live <= subject_.plan.space() + subject_.plan.slab) return ": blocks that were free did not fit";
    return ":" + kNextLine + "at op " + std::to_string(worst) + " " +
           base::format_bytes(live - subject_.plan.budget + subject_.plan.reserve) +
           " too many are live, and it is unused for " + std::to_string(count) + " ops";
  }

  const Subject& subject_;
  const trace::Trace& trace_;
  std::map<trace::StorageId, std::uint32_t> born_at_;
  std::string text_;
};

}  // namespace

std::string write_text(const Subject& subject) { return Text(subject).write(); }

std::string write_svg(const Subject& subject) {
  constexpr double kWidth = 960;
  constexpr double kHeight = 320;
  const auto ops = static_cast<double>(subject.plan.ops);
  const auto highest = static_cast<double>(std::max(subject.liveness.need(), subject.measured.peak).count());
  const auto number = [](double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", value);
    return std::string(text.data());
  };
  const auto y = [&](Bytes bytes) { return kHeight * (1 - static_cast<double>(bytes.count()) / highest); };
  const auto area = [&](const char* colour, auto bytes_at) {
    std::string path = "<path fill=\"" + std::string(colour) + "\" d=\"M0 " + number(kHeight);
    for (std::uint32_t op = 0; op < subject.plan.ops; ++op)
      path += "L" + number(op / ops * kWidth) + " " + number(y(bytes_at(op))) + "H" + number((op + 1) / ops * kWidth);
    return path + "V" + number(kHeight) + "Z\"/>\n";
  };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 -20 960 360\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n";
  svg += area("#cccccc", [&](std::uint32_t op) { return subject.liveness.live(op); });
  svg += area("#4c9f70", [&](std::uint32_t op) { return subject.measured.curve[op]; });
  const std::string line = number(y(std::min(subject.plan.budget, Bytes(static_cast<std::uint64_t>(highest)))));
  svg += "<path stroke=\"black\" stroke-dasharray=\"6 4\" d=\"M0 " + line + "H960\"/>\n";
  svg += "<text x=\"4\" y=\"-6\">live (grey) and charged (green) bytes over " + std::to_string(subject.plan.ops) +
         " ops; need " + base::format_bytes(subject.liveness.need()) + ", budget (dashed) " +
         base::format_bytes(subject.plan.budget) + "</text>\n";
  return svg + "</svg>\n";
}

}  // namespace tensorpager::report
