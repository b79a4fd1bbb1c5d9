#include "tensorpager/base/config.h"

#include <charconv>
#include <string_view>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

std::uint64_t parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw InvalidArgument("'" + std::string(text) + "' is not a whole number");
  return value;
}

bool parse_switch(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off" || text.empty()) return false;
  throw InvalidArgument("'" + std::string(text) + "' is neither 1 nor 0");
}

BindingKind parse_binding(std::string_view text) {
  if (text == "stable") return BindingKind::kStable;
  if (text == "rebinding") return BindingKind::kRebinding;
  throw InvalidArgument("'" + std::string(text) + "' is neither stable nor rebinding");
}

TraceDevice parse_trace_device(std::string_view text) {
  if (text == "cpu") return TraceDevice::kHost;
  if (text == "cuda") return TraceDevice::kCuda;
  throw InvalidArgument("'" + std::string(text) + "' is neither cpu nor cuda");
}

void read_dry(Config& config, std::string_view text) {
  config.dry = parse_switch(text);
  if (!config.dry) return;
  config.trace_smallest = Bytes(0);
  config.trace_class = 0;
}

std::uint64_t parse_ranks(std::string_view text) {
  const std::uint64_t ranks = parse_count(text);
  if (ranks == 0) throw InvalidArgument("'0' ranks on this machine");
  return ranks;
}

std::uint64_t parse_ordinal(std::string_view text) {
  const std::uint64_t ordinal = parse_count(text);
  if (ordinal == 0) throw InvalidArgument("'0' where counting begins with 1");
  return ordinal;
}

struct Variable {
  const char* name;
  void (*read)(Config&, std::string_view);
};

constexpr Variable kVariables[] = {
    // Before the budget, which looks at it. torchrun sets it in its ranks, and not in itself.
    {"LOCAL_WORLD_SIZE", [](Config& c, std::string_view t) { c.local_ranks = parse_ranks(t); }},
    {"TENSORPAGER_BUDGET",
     [](Config& c, std::string_view t) { c.budget = parse_size(t, Bytes(physical_memory().count() / c.local_ranks)); }},
    {"TENSORPAGER_SPILL", [](Config& c, std::string_view t) { c.spill = t; }},
    {"TENSORPAGER_LINK", [](Config& c, std::string_view t) { c.link = parse_link(t); }},
    {"TENSORPAGER_BINDING", [](Config& c, std::string_view t) { c.binding = parse_binding(t); }},
    {"TENSORPAGER_STATS", [](Config& c, std::string_view t) { c.stats = t; }},
    {"TENSORPAGER_QUIET", [](Config& c, std::string_view t) { c.quiet = parse_switch(t); }},
    {"TENSORPAGER_FUZZ", [](Config& c, std::string_view t) { c.fuzz = parse_count(t); }},
    {"TENSORPAGER_FUZZ_EVICTIONS", [](Config& c, std::string_view t) { c.fuzz_evictions = parse_count(t); }},
    {"TENSORPAGER_WITNESS", [](Config& c, std::string_view t) { c.witness_ops = parse_count(t); }},
    {"TENSORPAGER_CURVE", [](Config& c, std::string_view t) { c.curve = parse_switch(t); }},
    {"TENSORPAGER_ON_DEMAND", [](Config& c, std::string_view t) { c.plans = !parse_switch(t); }},
    {"TENSORPAGER_PLAN_SYNC", [](Config& c, std::string_view t) { c.plan_sync = parse_switch(t); }},
    {"TENSORPAGER_PLAN", [](Config& c, std::string_view t) { c.plan = t; }},
    {"TENSORPAGER_PLAN_CACHE", [](Config& c, std::string_view t) { c.plan_cache = t; }},
    {"TENSORPAGER_TRACE", [](Config& c, std::string_view t) { c.trace = t; }},
    {"TENSORPAGER_TRACE_DEVICE", [](Config& c, std::string_view t) { c.trace_device = parse_trace_device(t); }},
    {"TENSORPAGER_DRY", &read_dry},
    // After it, as it has a default of its own.
    {"TENSORPAGER_TRACE_SMALLEST", [](Config& c, std::string_view t) { c.trace_smallest = parse_size(t, Bytes(0)); }},
    {"TENSORPAGER_DRY_TO_END", [](Config& c, std::string_view t) { c.dry_to_end = parse_switch(t); }},
    {"TENSORPAGER_TRACE_CLASS",
     [](Config& c, std::string_view t) { c.trace_class = t == "step" ? 0 : parse_ordinal(t); }},
};

}  // namespace

Config read_config(const Environment& environment) {
  Config config;
  for (const Variable& variable : kVariables) {
    const char* text = environment(variable.name);
    if (text == nullptr || *text == '\0') continue;
    try {
      variable.read(config, text);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string(variable.name) + ": " + error.what());
    }
  }
  return config;
}

std::string default_spill_directory(const Environment& environment) {
  const char* directory = environment("TMPDIR");
  return directory != nullptr && *directory != '\0' ? directory : "/tmp";
}

}  // namespace tensorpager::base
