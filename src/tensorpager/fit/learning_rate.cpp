#include "tensorpager/fit/learning_rate.h"

#include <cmath>
#include <sstream>

#include "tensorpager/base/errors.h"

namespace tensorpager::fit {

LearningRate ReferenceRate::at(std::uint64_t others, const std::optional<NoiseScale>& noise) const {
  const auto from = static_cast<double>(samples), to = static_cast<double>(others);
  return {.samples = others,
          .linear = rate * to / from,
          .square_root = rate * std::sqrt(to / from),
          .by_noise = noise ? std::optional(rate_by_noise(rate, from, to, *noise)) : std::nullopt};
}

std::optional<ReferenceRate> parse_reference_rate(const std::string& text) {
  if (text.empty()) return std::nullopt;
  double rate = 0;
  char at = 0;
  std::int64_t samples = 0;
  std::istringstream words(text);
  if (!(words >> rate >> at >> samples) || !words.eof() || at != '@' || !(rate > 0) || samples <= 0)
    throw base::InvalidArgument("--learning-rate '" + text + "': write the rate that is good for a size, as 0.1@256");
  return ReferenceRate{.rate = rate, .samples = static_cast<std::uint64_t>(samples)};
}

}  // namespace tensorpager::fit
