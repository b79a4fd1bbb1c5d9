// Measures the links of this machine for plans, through the tier that a session would use.
#pragma once

#include <string>

#include "tensorpager/machine/machine.h"

namespace tensorpager::cli {

struct Measured {
  machine::Machine machine;  // without rates of ops: a trace of this machine has measured op times
  std::string tier;          // "file in /tmp", "RAM"
  double copy_rate;          // bytes per second of a copy in memory, for comparison
};

/// Pages out and in for a few seconds, up to 64 MiB at a time. `spill` is a directory, or `ram`. Throws IoError.
Measured measure_machine(const std::string& spill);

}  // namespace tensorpager::cli
