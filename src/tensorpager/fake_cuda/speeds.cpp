#include "tensorpager/fake_cuda/speeds.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "tensorpager/base/errors.h"
#include "tensorpager/fake_cuda/fields.h"

namespace tensorpager::fake_cuda {
namespace {

struct Field {
  std::string_view key;
  double least;
  void (*set)(Speeds& speeds, double value);
};

constexpr Field kFields[] = {
    {"launch_ns", 0, [](Speeds& speeds, double value) { speeds.launch = value * 1e-9; }},
    {"byte_rate", 1, [](Speeds& speeds, double value) { speeds.bytes_per_second = value; }},
    {"out_ns", 0, [](Speeds& speeds, double value) { speeds.out.latency = value * 1e-9; }},
    {"out_rate", 1, [](Speeds& speeds, double value) { speeds.out.bytes_per_second = value; }},
    {"in_ns", 0, [](Speeds& speeds, double value) { speeds.in.latency = value * 1e-9; }},
    {"in_rate", 1, [](Speeds& speeds, double value) { speeds.in.bytes_per_second = value; }},
};

constexpr double kFastest = 1e18;

/// A number from `least` on; nullopt if the text is none.
std::optional<double> number(std::string_view text, double least) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_one = error == std::errc() && end == text.data() + text.size() && value >= least && value <= kFastest;
  return is_one ? std::optional(value) : std::nullopt;
}

/// Returns false if the key is not a class and a precision, as product.float32.
bool set_flop_rate(Speeds& speeds, std::string_view key, std::string_view text) {
  const std::size_t dot = key.find('.');
  const auto op_class = base::class_named(key.substr(0, dot));
  const auto precision = dot == key.npos ? std::nullopt : base::precision_named(key.substr(dot + 1));
  const auto value = number(text, 1);
  if (!op_class || !precision || !value) return false;
  speeds.flop_rates.set(*op_class, *precision, *value);
  return true;
}

void set_field(Speeds& speeds, std::string_view field) {
  const std::size_t equals = field.find('=');
  const std::string_view key = field.substr(0, equals);
  if (equals != field.npos) {
    const std::string_view text = field.substr(equals + 1);
    const Field* const found = std::ranges::find(kFields, key, &Field::key);
    if (found == std::end(kFields)) {
      if (set_flop_rate(speeds, key, text)) return;
    } else if (const auto value = number(text, found->least)) {
      return found->set(speeds, *value);
    }
  }
  throw base::InvalidArgument("TENSORPAGER_EMULATE_SPEEDS: " + std::string(field) +
                              " is wrong; try a field of a machine's rates, as byte_rate=2e12");
}

double time_of(const Speeds::Link& link, std::size_t bytes) {
  return link.latency + static_cast<double>(bytes) / link.bytes_per_second;
}

}  // namespace

double Speeds::time_of(const Work& work) const {
  if (work.kind == Work::Kind::kPageOut) return fake_cuda::time_of(out, work.bytes);
  if (work.kind == Work::Kind::kPageIn) return fake_cuda::time_of(in, work.bytes);
  const double rate = work.flops == 0 ? 0 : flop_rates.of(work.op_class, work.precision);
  const double arithmetic = rate == 0 ? 0 : static_cast<double>(work.flops) / rate;
  return launch + std::max(arithmetic, static_cast<double>(work.bytes) / bytes_per_second);
}

Speeds parse_speeds(std::string_view text) {
  Speeds speeds;
  for_each_field(text, [&](std::string_view field) { set_field(speeds, field); });
  return speeds;
}

}  // namespace tensorpager::fake_cuda
