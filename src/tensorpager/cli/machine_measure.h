// This machine as plans need it: its links, timed through the engine that a session would use.
#pragma once

#include <string>

#include "tensorpager/machine/machine.h"

namespace tensorpager::cli {

struct Measured {
  machine::Machine machine;  // op times are taken as recorded: a trace of this machine needs no rates of ops
  std::string tier;          // "file in /tmp", "RAM"
  double copy_rate;          // bytes per second from memory to memory, for comparison
};

/// Pages out and in, for a few seconds, up to 64 MiB at a time. `spill` is a directory, or `ram`. Throws IoError.
Measured measure_machine(const std::string& spill);

}  // namespace tensorpager::cli
