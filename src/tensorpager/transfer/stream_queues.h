// Transfers of a device: copies that its streams do in order, from and to host memory. What is submitted is
// ordered by events, and so is who waits: the host never does.
//
// So a transfer counts as done once it is submitted, for everybody who comes behind its ticket. Nothing depends on how
// far the device really is, and a program pages in the same way in each run.
#pragma once

#include <memory>

#include "tensorpager/base/bytes.h"
#include "tensorpager/device/stream_timeline.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::transfer {

/// The most bytes of host memory for what is paged out.
struct HostLimits {
  base::Bytes pinned;  // at least twice StagedCopies::kSmallestBuffer is taken
  base::Bytes all;
};

/// Copies are ordered behind `PageOut::after` and `PageIn::after`; a compute queue comes behind a transfer by its
/// ticket, through the timeline. Both must outlive the queues.
std::unique_ptr<Queues> make_stream_queues(device::Streams& streams, device::StreamTimeline& timeline,
                                           HostLimits limits);

}  // namespace tensorpager::transfer
