#include "tensorpager/session/statistics_file.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tensorpager/base/atomic_file.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/session/accelerator.h"

namespace tensorpager::session {
namespace {

using Json = nlohmann::ordered_json;
using base::Existing;

Json object_of(const Session::Report& report) {
  Json object{{"device", base::to_string(report.device)}, {"binding", report.binding}, {"spill", report.spill}};
  report.counts.for_each([&](const char* name, auto value) { object[name] = value; });
  object["outside_budget_bytes"] = report.outside_budget_bytes;
  report.guidance.for_each([&](const char* name, auto value) { object[name] = value; });
  object["wall_seconds"] = report.wall_seconds;
  if (!report.replay_different_ops.empty()) object["replay_different_ops"] = report.replay_different_ops;
  if (!report.curve.empty()) {
    auto& curve = object["curve"];
    for (const auto& point : report.curve) {
      curve["op"].push_back(point.op);
      curve["live_bytes"].push_back(point.live.count());
      curve["charged_bytes"].push_back(point.charged.count());
    }
  }
  return object;
}

Json emulation() {
  const std::string text = emulation_report();
  return text.empty() ? Json::object() : Json::parse(text);
}

/// The text that Python's json module would write. The name of a spill directory need not be UTF-8.
std::string text_of(const Json& object) { return object.dump(1, ' ', true, Json::error_handler_t::replace) + "\n"; }

bool write(const std::string& path, const Json& object, Existing existing) {
  try {
    return base::write_atomically(path, text_of(object), existing);
  } catch (const base::IoError& error) {
    throw base::IoError("write", "the statistics to " + path, base::Bytes(0), error.error_number());
  }
}

}  // namespace

std::string statistics_text(const Session::Report& report) { return text_of(object_of(report)); }

void write_statistics(const Session::Report& report, const StatisticsFile& file) {
  Json object = object_of(report);
  if (file.foreign_before_bytes) object["foreign_before_bytes"] = *file.foreign_before_bytes;
  if (is_emulation_wanted()) object["emulation"] = emulation();
  if (file.is_of_first && !write(file.path, object, Existing::kKeep))
    write(file.path + "." + std::to_string(getpid()), object, Existing::kReplace);
  else if (!file.is_of_first)
    write(file.path, object, Existing::kReplace);
}

void write_emulation_statistics(const std::string& path) {
  write(path, Json{{"emulation", emulation()}}, Existing::kReplace);
}

}  // namespace tensorpager::session
