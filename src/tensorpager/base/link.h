// How fast bytes may move, where a tier emulates another machine's link: `--link 2GB/s`.
#pragma once

#include <string>
#include <string_view>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

/// Bytes per second; kUnlimited where nothing slows the tier down.
struct LinkRates {
  Bytes out = kUnlimited;
  Bytes in = kUnlimited;

  bool is_limited() const { return out < kUnlimited || in < kUnlimited; }
  friend bool operator==(const LinkRates&, const LinkRates&) = default;
};

/// Reads `2GB/s`, both ways, or `2GB/s/4GB/s`, page-outs and then page-ins; `/s` may be left out. Throws
/// InvalidArgument, naming the text.
LinkRates parse_link(std::string_view text);

/// As it is read; for people.
std::string format_link(const LinkRates& link);

}  // namespace tensorpager::base
