#include "tensorpager/plan/timing.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace tensorpager::plan {
namespace {

using base::Bytes;
using trace::index;

/// Finds rows by one of their op indices.
class RowsByOp {
 public:
  template <typename OpOf, typename Choose>
  RowsByOp(const std::vector<Row>& rows, std::uint32_t ops, OpOf op_of, Choose choose) : begins_(ops + 2) {
    for (const Row& row : rows) {
      if (choose(row)) ++begins_[op_of(row) + 1];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    indices_.resize(begins_.back());
    std::vector<std::uint32_t> next(begins_);
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      if (choose(rows[i])) indices_[next[op_of(rows[i])]++] = i;
    }
  }
  std::span<const std::uint32_t> at(std::uint32_t op) const {
    return {indices_.data() + begins_[op], begins_[op + 1] - begins_[op]};
  }

 private:
  std::vector<std::uint32_t> begins_;
  std::vector<std::uint32_t> indices_;
};

bool is_page_in(const Row& row) { return row.fill == Fill::kPageIn; }
bool any_row(const Row&) { return true; }
std::uint32_t begin_of(const Row& row) { return row.begin; }
std::uint32_t need_of(const Row& row) { return row.need; }

}  // namespace

double overhead_of(Nanoseconds step, Nanoseconds compute) {
  return compute.count() > 0 ? static_cast<double>(step.count()) / static_cast<double>(compute.count()) - 1 : 0;
}

std::vector<Nanoseconds> op_times(const trace::Trace& trace, const Machine& machine) {
  std::vector<Nanoseconds> times;
  times.reserve(trace.ops.size());
  for (const trace::Op& op : trace.ops) times.push_back(machine.time_of(op));
  return times;
}

Timing time_rows(const std::vector<Row>& rows, const std::vector<Nanoseconds>& op_times, const Machine& machine) {
  const auto ops = static_cast<std::uint32_t>(op_times.size());
  const RowsByOp beginning(rows, ops, begin_of, any_row);
  const RowsByOp needed(rows, ops, need_of, is_page_in);
  const std::vector<std::uint32_t> page_outs = page_outs_of(rows);
  std::uint32_t storages = 0;
  for (const Row& row : rows) {
    if (row.storage != kTemporary) storages = std::max(storages, index(row.storage) + 1);
  }

  std::vector<Nanoseconds> in_end(rows.size());
  std::vector<Nanoseconds> out_end(page_outs.size());  // of the newest instance of each ticket
  std::vector<Nanoseconds> below_since(storages);      // end of each storage's newest page-out
  Nanoseconds now{0};
  Nanoseconds owed{0};  // CPU time of transfers, spent before the next op
  Nanoseconds in_free{0};
  Nanoseconds out_free{0};
  Timing timing;
  for (int window = 0; window < 3; ++window) {
    const Nanoseconds window_begin = now;
    timing.starts.clear();
    std::size_t next_out = 0;
    for (std::uint32_t op = 0; op <= ops; ++op) {
      if (op < ops) {
        for (const std::uint32_t i : beginning.at(op)) {
          const Row& row = rows[i];

          const Nanoseconds free_from = row.wait != 0 ? out_end[row.wait - 1] : Nanoseconds(0);
          if (!is_page_in(row)) {
            now = std::max(now, free_from);
            continue;
          }
          in_free =
              std::max({now, in_free, free_from, below_since[index(row.storage)]}) + machine.in.time_of(row.bytes);
          in_end[i] = in_free;
          owed += machine.in.handling;
        }
      }
      for (const std::uint32_t i : needed.at(op)) now = std::max(now, in_end[i]);
      now += std::exchange(owed, Nanoseconds(0));
      timing.starts.push_back(now - window_begin);
      if (op == ops) break;
      now += op_times[op];
      for (; next_out < page_outs.size() && rows[page_outs[next_out]].end <= op + 1; ++next_out) {
        const Row& row = rows[page_outs[next_out]];
        out_free = std::max(now, out_free) + machine.out.time_of(row.bytes);
        out_end[next_out] = out_free;
        below_since[index(row.storage)] = out_free;
        owed += machine.out.handling;
      }
    }
    timing.step = now - window_begin;
    if (window == 2) {
      for (const Nanoseconds end : out_end) timing.page_out_ends.push_back(end - window_begin);
    }
  }
  return timing;
}

std::int64_t Timing::op_after(Nanoseconds time) const {
  const auto ops = static_cast<std::int64_t>(starts.size()) - 1;
  std::int64_t op = 0;
  if (step > Nanoseconds(0)) {
    op = time / step * ops;
    time %= step;
  }
  return op + (std::ranges::lower_bound(starts.begin(), starts.end() - 1, time) - starts.begin());
}

std::vector<std::uint32_t> release_ops(const std::vector<Row>& rows, std::uint32_t ops) {
  const std::vector<std::uint32_t> page_outs = page_outs_of(rows);
  std::vector<std::uint32_t> released;
  released.reserve(page_outs.size());
  for (const std::uint32_t i : page_outs) released.push_back(rows[i].end + ops);
  // Instances are numbered over two windows; the result is about those of the first.
  std::size_t oldest = 0;
  for (std::uint32_t window = 0; window < 2; ++window) {
    for (const Row& row : rows) {
      if (row.wait == 0) continue;
      const bool submitted = rows[page_outs[row.wait - 1]].end <= row.begin;
      if (!submitted && window == 0) continue;
      const std::size_t newest = row.wait - 1 + (window - (submitted ? 0 : 1)) * page_outs.size();
      for (; oldest <= newest; ++oldest) {
        if (oldest < page_outs.size()) released[oldest] = row.begin + window * ops;
      }
    }
  }
  return released;
}

Prediction predict(const Plan& plan, const std::vector<Nanoseconds>& op_times, const Machine& machine) {
  Prediction prediction;
  prediction.step = time_rows(plan.rows, op_times, machine).step;
  for (const Nanoseconds time : op_times) prediction.compute += time;

  std::vector<std::int64_t> change(plan.ops + 1);
  const auto charge = [&](std::uint32_t begin, std::uint32_t end, Bytes bytes) {
    const auto count = static_cast<std::int64_t>(bytes.count());
    change[begin] += count;
    change[end] -= count;
  };
  for (const Row& row : plan.rows) {
    charge(row.begin, row.end, row.bytes);
    if (row.fill == Fill::kPageIn) prediction.page_in += row.bytes;
    if (row.leave == Leave::kPageOut) prediction.page_out += row.bytes;
  }
  const std::vector<std::uint32_t> page_outs = page_outs_of(plan.rows);
  const std::vector<std::uint32_t> released = release_ops(plan.rows, plan.ops);
  for (std::size_t ticket = 0; ticket < page_outs.size(); ++ticket) {
    const Row& row = plan.rows[page_outs[ticket]];
    charge(row.end, std::min(released[ticket], plan.ops), row.bytes);
    if (released[ticket] > plan.ops) charge(0, released[ticket] - plan.ops, row.bytes);
  }
  std::int64_t charged = static_cast<std::int64_t>(plan.slab.count());
  for (std::uint32_t op = 0; op < plan.ops; ++op) {
    charged += change[op];
    prediction.curve.emplace_back(static_cast<std::uint64_t>(charged));
    prediction.peak = std::max(prediction.peak, prediction.curve.back());
  }
  return prediction;
}

}  // namespace tensorpager::plan
