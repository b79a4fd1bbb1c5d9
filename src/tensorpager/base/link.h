// Limits on the rates of a tier, to emulate another machine's link: `--link 2GB/s`.
#pragma once

#include <string>
#include <string_view>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

/// Bytes per second; kUnlimited if the tier is not slowed down.
struct LinkRates {
  Bytes out = kUnlimited;
  Bytes in = kUnlimited;

  bool is_limited() const { return out < kUnlimited || in < kUnlimited; }
  friend bool operator==(const LinkRates&, const LinkRates&) = default;
};

/// Reads `2GB/s`, for both directions, or `2GB/s/4GB/s`, for page-outs and page-ins; `/s` may be left out. Throws
/// InvalidArgument with the text.
LinkRates parse_link(std::string_view text);

/// The text that parse_link reads, for messages.
std::string format_link(const LinkRates& link);

}  // namespace tensorpager::base
