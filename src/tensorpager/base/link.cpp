#include "tensorpager/base/link.h"

#include <vector>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {

LinkRates parse_link(std::string_view text) {
  const auto fail = [&]() -> InvalidArgument {
    return InvalidArgument("'" + std::string(text) +
                           "' is not how fast bytes may move; write 2GB/s, or 2GB/s/4GB/s for out and in");
  };
  std::vector<Bytes> rates;
  bool has_unit = true;  // whether the rate before has a unit
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word == "s" && !has_unit) {
      has_unit = true;
      continue;
    }
    if (word.ends_with('%')) throw fail();  // a share has no meaning here
    try {
      rates.push_back(parse_size(word, kUnlimited));
    } catch (const InvalidArgument&) {
      throw fail();
    }
    has_unit = false;
  }
  if (rates.empty() || rates.size() > 2) throw fail();
  return {.out = rates.front(), .in = rates.back()};
}

std::string format_link(const LinkRates& link) {
  const auto rate = [](Bytes bytes) { return bytes < kUnlimited ? format_bytes(bytes) + "/s" : "unlimited"; };
  return link.out == link.in ? rate(link.out) : rate(link.out) + " out, " + rate(link.in) + " in";
}

}  // namespace tensorpager::base
