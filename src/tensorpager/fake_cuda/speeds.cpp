#include "tensorpager/fake_cuda/speeds.h"

#include <algorithm>
#include <charconv>
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
    {"float32", 1, [](Speeds& speeds, double value) { speeds.flop_rate[base::Precision::kFloat32] = value; }},
    {"bfloat16", 1, [](Speeds& speeds, double value) { speeds.flop_rate[base::Precision::kBfloat16] = value; }},
    {"float16", 1, [](Speeds& speeds, double value) { speeds.flop_rate[base::Precision::kFloat16] = value; }},
    {"float64", 1, [](Speeds& speeds, double value) { speeds.flop_rate[base::Precision::kFloat64] = value; }},
    {"out_ns", 0, [](Speeds& speeds, double value) { speeds.out.latency = value * 1e-9; }},
    {"out_rate", 1, [](Speeds& speeds, double value) { speeds.out.bytes_per_second = value; }},
    {"in_ns", 0, [](Speeds& speeds, double value) { speeds.in.latency = value * 1e-9; }},
    {"in_rate", 1, [](Speeds& speeds, double value) { speeds.in.bytes_per_second = value; }},
};

void set_field(Speeds& speeds, std::string_view field) {
  const std::size_t equals = field.find('=');
  const std::string_view key = field.substr(0, equals);
  const Field* const found = std::ranges::find(kFields, key, &Field::key);
  double value = -1;
  if (found != std::end(kFields) && equals != std::string_view::npos) {
    const std::string_view text = field.substr(equals + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= found->least && value <= 1e18)
      return found->set(speeds, value);
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
  const auto rate = flop_rate.find(work.precision);
  const double arithmetic = rate == flop_rate.end() ? 0 : static_cast<double>(work.flops) / rate->second;
  return launch + std::max(arithmetic, static_cast<double>(work.bytes) / bytes_per_second);
}

Speeds parse_speeds(std::string_view text) {
  Speeds speeds;
  for_each_field(text, [&](std::string_view field) { set_field(speeds, field); });
  return speeds;
}

}  // namespace tensorpager::fake_cuda
