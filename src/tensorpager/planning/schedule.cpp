#include "tensorpager/planning/schedule.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "tensorpager/planning/newest_by_range.h"
#include "tensorpager/planning/segment_tree.h"

namespace tensorpager::planning {
namespace {

/// Percent of the time of transfers: page-ins are submitted earlier than the last moment, as op times vary.
constexpr std::int64_t kSlackPercent = 115;

/// Calls `use(begin, end)` for the one or two stretches of the window that [begin, end) covers, once each.
template <typename Use>
void in_window(std::int64_t begin, std::int64_t end, std::int64_t ops, Use use) {
  if (end - begin >= ops) return use(0, ops);
  use(begin, std::min(end, ops));
  if (end > ops) use(0, end - ops);
}

/// Page-outs by submission, numbered through several windows: an instance is a ticket in one of them.
class Instances {
 public:
  explicit Instances(const std::vector<Row>& rows) : page_outs_(page_outs_of(rows)), rows_(rows) {}

  std::size_t count() const { return page_outs_.size(); }
  const Row& row(std::size_t instance) const { return rows_[page_outs_[instance % count()]]; }
  std::uint32_t ticket(std::size_t instance) const { return static_cast<std::uint32_t>(instance % count() + 1); }

  /// Calls `submit(instance)` for those of `window` that leave before or at `op` and were not submitted yet.
  template <typename Submit>
  void submit_until(std::size_t window, std::uint32_t op, Submit submit) {
    while (next_ < (window + 1) * count() && row(next_).end <= op) submit(next_++);
  }

 private:
  std::vector<std::uint32_t> page_outs_;
  const std::vector<Row>& rows_;
  std::size_t next_ = 0;
};

/// The page-ins, by need.
std::vector<std::uint32_t> page_ins_of(const std::vector<Interval>& intervals) {
  std::vector<std::uint32_t> page_ins;
  for (std::uint32_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].fill == Fill::kPageIn) page_ins.push_back(i);
  }
  std::ranges::stable_sort(page_ins, {}, [&](std::uint32_t i) { return intervals[i].need; });
  return page_ins;
}

/// The op before which the storage of a page-in was evicted. If that was in the window before, it is counted from this
/// one.
std::int64_t end_before(const Interval& page_in, const std::vector<Interval>& intervals, std::int64_t ops) {
  std::int64_t end = intervals[page_in.previous].end;
  while (end > page_in.need) end -= ops;
  return end;
}

/// Of each page-in, the first op at which it may be submitted: not before its page-out, nor long before the queue wants
/// it.
std::vector<std::int64_t> first_submissions(const std::vector<Interval>& intervals,
                                            const std::vector<std::uint32_t>& page_ins,
                                            const std::vector<Nanoseconds>& starts, const Link& link) {
  const auto ops = static_cast<std::int64_t>(starts.size()) - 1;
  std::vector<std::int64_t> first(page_ins.size());
  Nanoseconds start = starts.back();
  for (std::size_t k = page_ins.size(); k-- > 0;) {
    const Interval& interval = intervals[page_ins[k]];
    start = std::min(start, starts[static_cast<std::size_t>(interval.need)]) -
            link.time_of(base::Bytes(interval.bytes)) * kSlackPercent / 100;
    const auto op = std::ranges::upper_bound(starts.begin(), starts.end() - 1, start) - starts.begin() - 1;
    first[k] = std::max(std::clamp<std::int64_t>(op, 0, interval.need), end_before(interval, intervals, ops));
  }
  return first;
}

/// Sets `begin` of page-ins: from `first` of each on, the first op after which there is room for it until its need.
void begin_page_ins(std::vector<Interval>& intervals, const std::vector<std::uint32_t>& page_ins,
                    const std::vector<std::int64_t>& first, std::uint64_t space, std::int64_t ops) {
  SegmentTree charged(static_cast<std::size_t>(ops));
  const auto charge = [&](std::int64_t begin, std::int64_t end, std::uint64_t bytes) {
    in_window(begin, end, ops, [&](std::int64_t from, std::int64_t to) {
      charged.add(static_cast<std::size_t>(from), static_cast<std::size_t>(to), static_cast<std::int64_t>(bytes));
    });
  };
  for (Interval& interval : intervals) {
    interval.begin = interval.need;
    charge(interval.need, interval.release, interval.bytes);
  }
  for (std::size_t k = 0; k < page_ins.size(); ++k) {
    Interval& interval = intervals[page_ins[k]];
    const auto room = static_cast<std::int64_t>(space) - static_cast<std::int64_t>(interval.bytes);
    const auto full =
        charged.find_last_above(static_cast<std::size_t>(first[k]), static_cast<std::size_t>(interval.need), room);
    interval.begin = full ? static_cast<std::int64_t>(*full) + 1 : first[k];
    charge(interval.begin, interval.need, interval.bytes);
  }
}

}  // namespace

void schedule_page_ins(std::vector<Interval>& intervals, std::uint64_t space, const std::vector<Nanoseconds>& starts,
                       const Link& link) {
  const std::vector<std::uint32_t> page_ins = page_ins_of(intervals);
  begin_page_ins(intervals, page_ins, first_submissions(intervals, page_ins, starts, link), space,
                 static_cast<std::int64_t>(starts.size()) - 1);
}

void schedule_page_ins_one_ahead(std::vector<Interval>& intervals, std::uint64_t space, std::uint32_t ops) {
  const std::vector<std::uint32_t> page_ins = page_ins_of(intervals);
  std::vector<std::int64_t> first(page_ins.size());
  std::int64_t need_before = page_ins.empty() ? 0 : intervals[page_ins.front()].need;
  for (std::size_t k = 0; k < page_ins.size(); ++k) {
    const Interval& interval = intervals[page_ins[k]];
    if (k > 0 && intervals[page_ins[k - 1]].need < interval.need) need_before = intervals[page_ins[k - 1]].need;
    first[k] = std::max(need_before, end_before(interval, intervals, ops));
  }
  begin_page_ins(intervals, page_ins, first, space, ops);
}

void schedule_placed_page_ins(std::vector<Interval>& intervals, const std::vector<std::int64_t>& earliest,
                              const std::vector<Nanoseconds>& starts, const Link& link) {
  const std::vector<std::uint32_t> page_ins = page_ins_of(intervals);
  const std::vector<std::int64_t> first = first_submissions(intervals, page_ins, starts, link);
  for (std::size_t k = 0; k < page_ins.size(); ++k)
    intervals[page_ins[k]].begin = std::max(first[k], earliest[page_ins[k]]);
}

void delay_page_ins(std::vector<Interval>& intervals, std::uint32_t ops) {
  const auto end_in_window = [&](std::uint32_t i) { return (intervals[i].end - 1) % ops + 1; };
  std::vector<std::uint32_t> by_end(intervals.size());
  std::iota(by_end.begin(), by_end.end(), 0u);
  std::ranges::sort(by_end, {}, end_in_window);
  const std::vector<std::uint32_t> page_ins = page_ins_of(intervals);
  NewestByRange<std::int64_t> free_from;
  for (std::uint32_t i : by_end) free_from.set(intervals[i].offset, intervals[i].bytes, end_in_window(i) - ops);
  auto next = by_end.begin();
  for (const std::uint32_t i : page_ins) {
    Interval& interval = intervals[i];
    for (; next != by_end.end() && end_in_window(*next) <= interval.need; ++next)
      free_from.set(intervals[*next].offset, intervals[*next].bytes, end_in_window(*next));
    interval.begin = std::max(interval.begin, free_from.newest(interval.offset, interval.bytes).value_or(0));
  }
}

void wait_by_bytes(std::vector<Row>& rows, std::uint32_t ops, std::uint64_t space) {
  Instances instances(rows);
  std::vector<std::uint64_t> freed(ops + 1);  // by op before which they leave, without page-outs
  for (const Row& row : rows) {
    if (row.leave != Leave::kPageOut) freed[row.end] += row.bytes.count();
  }
  std::deque<std::size_t> under_way;
  std::uint64_t charged = 0;
  for (std::size_t window = 0; window < 2; ++window) {
    std::uint32_t op = 0;
    const auto leave_until = [&](std::uint32_t next) {
      for (; op < next; ++op) charged -= freed[op + 1];
      instances.submit_until(window, next, [&](std::size_t instance) { under_way.push_back(instance); });
    };
    for (Row& row : rows) {
      leave_until(row.begin);
      row.wait = 0;
      charged += row.bytes.count();
      while (charged > space && !under_way.empty()) {
        charged -= instances.row(under_way.front()).bytes.count();
        row.wait = instances.ticket(under_way.front());
        under_way.pop_front();
      }
    }
    leave_until(ops);
  }
}

void wait_by_offsets(std::vector<Row>& rows, std::uint32_t ops) {
  Instances instances(rows);
  NewestByRange<std::size_t> last;
  const auto submit = [&](std::size_t instance) {
    const Row& row = instances.row(instance);
    last.set(row.offset, row.bytes.count(), instance + 1);
  };
  // Instances up to which all are done, counted from 1: when the page-in begins that is submitted next, and when the op
  // runs that comes next. Compute knows of what page-ins waited for once it has waited for them.
  std::size_t done_for_page_ins = 0;
  std::size_t done_for_compute = 0;
  std::vector<std::size_t> done_by_need(ops + 1);
  for (std::size_t window = 0; window < 2; ++window) {
    std::uint32_t op = 0;
    const auto compute_until = [&](std::uint32_t next) {
      for (; op < next; ++op) done_for_compute = std::max(done_for_compute, done_by_need[op]);
    };
    for (Row& row : rows) {
      instances.submit_until(window, row.begin, submit);
      compute_until(row.begin);
      row.wait = 0;
      if (row.fill == Fill::kBoundary) continue;
      const std::size_t newest = last.newest(row.offset, row.bytes.count()).value_or(0);
      done_for_page_ins = std::max(done_for_page_ins, done_for_compute);
      std::size_t& done = row.fill == Fill::kPageIn ? done_for_page_ins : done_for_compute;
      if (newest > done) {
        done = newest;
        row.wait = instances.ticket(newest - 1);
      }
      if (row.fill == Fill::kPageIn) done_by_need[row.need] = std::max(done_by_need[row.need], done_for_page_ins);
    }
    instances.submit_until(window, ops, submit);
    compute_until(ops + 1);
  }
}

void expect_tails(std::vector<Interval>& intervals, const std::vector<Row>& rows,
                  const std::vector<std::uint32_t>& ticket_of, const Timing& timing, Tails until) {
  const auto ops = static_cast<std::int64_t>(timing.starts.size()) - 1;
  const std::vector<std::uint32_t> waited = release_ops(rows, static_cast<std::uint32_t>(ops));
  const std::vector<std::uint32_t> page_outs = page_outs_of(rows);
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    Interval& interval = intervals[i];
    interval.release = interval.copied = interval.end;
    if (ticket_of[i] == 0) continue;
    const std::size_t ticket = ticket_of[i] - 1;
    const std::int64_t left = rows[page_outs[ticket]].end;
    const std::int64_t until_copied = std::max<std::int64_t>(0, timing.op_after(timing.page_out_ends[ticket]) - left);
    const std::int64_t until_waited = waited[ticket] - left;
    const std::int64_t last = std::max(interval.end, interval.begin + ops);
    interval.copied = std::min(interval.end + until_copied, last);
    interval.release = until == Tails::kUntilWaits
                           ? interval.end + until_waited
                           : std::min(interval.end + std::min(until_copied, until_waited), last);
  }
}

}  // namespace tensorpager::planning
