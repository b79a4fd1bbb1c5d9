// When transfers begin, and when compute must wait for page-outs: the second decision of a plan, by bytes and the
// link's time, before anything has an offset.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/planning/interval.h"

namespace tensorpager::planning {

/// Sets `begin` of page-ins. Each is submitted as late as the queue of all page-ins allows for its need, with some
/// slack, and later where the bytes charged until then, expected tails of page-outs included, leave no room within
/// `space`. Never before the page-out of its own storage. `starts` are the times at which ops start.
void schedule_page_ins(std::vector<Interval>& intervals, std::uint64_t space, const std::vector<Nanoseconds>& starts,
                       const Link& link);

/// Sets `begin` of page-ins to the op that needs the page-in before it, or later where the bytes leave no room.
void schedule_page_ins_one_ahead(std::vector<Interval>& intervals, std::uint64_t space, std::uint32_t ops);

/// The first for placed intervals: never before `earliest` of an interval, the op from which on its range is free.
void schedule_placed_page_ins(std::vector<Interval>& intervals, const std::vector<std::int64_t>& earliest,
                              const std::vector<Nanoseconds>& starts, const Link& link);

/// Moves page-ins that begin where something else is resident in their range to its end.
void delay_page_ins(std::vector<Interval>& intervals, std::uint32_t ops);

/// Sets the waits of rows by bytes alone: the first row for which the bytes charged do not leave room waits for the
/// oldest page-outs. Also a table whose bytes never fit is answered; what it lacks cannot be waited for.
void wait_by_bytes(std::vector<Row>& rows, std::uint32_t ops, std::uint64_t space);

/// Sets the waits of rows by offsets: each waits for the newest page-out whose block its own overlaps, unless it is
/// known to be done by then.
void wait_by_offsets(std::vector<Row>& rows, std::uint32_t ops);

/// For how long a page-out keeps its block: until the first row waits for it, if only in the queue of page-ins; or only
/// until its copy is done, if that is earlier, so that the next block there waits for nothing.
enum class Tails : std::uint8_t { kUntilWaits, kUntilCopied };

/// Sets `release` of what pages out to that, and `copied` to the first op that starts after its copy is done. `rows`
/// have waits and were timed.
void expect_tails(std::vector<Interval>& intervals, const std::vector<Row>& rows,
                  const std::vector<std::uint32_t>& ticket_of, const Timing& timing, Tails until);

}  // namespace tensorpager::planning
