// How long work takes on the card, by the rates of a machine file (see machine/machine.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensorpager/base/flop_rates.h"

namespace tensorpager::fake_cuda {

/// What a kernel or a copy does.
struct Work {
  enum class Kind : std::uint8_t { kKernel, kPageOut, kPageIn };  // the copies are those between a device and the host
  Kind kind = Kind::kKernel;
  std::size_t bytes = 0;  // read and written; of a copy between device and host: copied
  std::uint64_t flops = 0;
  base::OpClass op_class = base::OpClass::kProduct;
  base::Precision precision = base::Precision::kFloat32;
};

struct Speeds {
  struct Link {
    double latency = 0;  // seconds
    double bytes_per_second = 1e9;
  };
  double launch = 0;               // seconds, added to each kernel
  double bytes_per_second = 1e12;  // of kernels
  base::FlopRates flop_rates;      // where there is none, arithmetic takes no time
  Link out, in;

  /// Seconds: of a kernel the longer of its arithmetic and its movement of bytes, and a launch.
  double time_of(const Work& work) const;
};

/// Parses TENSORPAGER_EMULATE_SPEEDS: fields as in "launch_ns=4000 byte_rate=2e12 product.float32=3e13
/// out_ns=10000 out_rate=2e10 in_ns=10000 in_rate=2e10", in any order; classes and precisions are those of FlopRates.
/// Throws InvalidArgument.
Speeds parse_speeds(std::string_view text);

}  // namespace tensorpager::fake_cuda
