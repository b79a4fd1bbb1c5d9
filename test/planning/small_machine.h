// A machine for random traces: 1,000 bytes a microsecond each way, so an op is about as long as a transfer.
#pragma once

#include "tensorpager/planning/names.h"

namespace tensorpager::planning {

inline Machine small_machine(Nanoseconds handling = Nanoseconds(0)) {
  const Link link{
      .latency = Nanoseconds(500), .handling = handling, .steps = {{.from = base::Bytes(0), .bytes_per_second = 1e9}}};
  Machine machine;
  machine.name = "small";
  machine.out = machine.in = link;
  return machine;
}

}  // namespace tensorpager::planning
