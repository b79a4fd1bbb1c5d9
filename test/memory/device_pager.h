// A pager over the memory of the emulated card's world.
#pragma once

#include <memory>
#include <string>

#include "../device/world_streams.h"
#include "holders.h"
#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/transfer/stream_queues.h"

namespace tensorpager::memory {

struct DevicePager {
  /// `pinned`: the most pinned memory for what is paged out; the rest is pageable.
  DevicePager(const std::string& schedule, base::Bytes budget,
              base::Bytes pinned = base::Bytes(std::uint64_t{64} << 20))
      : streams(schedule), arena(new DeviceArena(streams, timeline, budget)) {
    pager::Pager::Options options;
    options.budget = budget;
    pager.start(options, transfer::make_stream_queues(streams, timeline,
                                                      {.pinned = pinned, .all = base::Bytes(std::uint64_t{64} << 20)}));
  }

  /// The number of races so far, once the device has done all.
  std::string races() {
    streams.finish();
    const std::string report = streams.report();
    const std::size_t begin = report.find("\"races\": ");
    return report.substr(begin, report.find(',', begin) - begin);
  }

  device::WorldStreams streams;
  device::StreamTimeline timeline{streams};
  DeviceArena* arena;  // the binding's
  arena::AddressSpace space{arena->begin(), arena->size(), DeviceArena::kGranule};
  Storages storages;
  RebindingBinding binding{space, storages, std::unique_ptr<ArenaMemory>(arena), PlaceReuse::kDuringCopy};
  pager::Pager pager{space, binding, std::make_unique<pager::LruPolicy>()};
};

}  // namespace tensorpager::memory
