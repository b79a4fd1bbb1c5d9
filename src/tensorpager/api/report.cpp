#include "tensorpager/api/report.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"

namespace tensorpager {

std::string Report::summary() const {
  const auto size = [](std::uint64_t bytes) { return base::format_bytes(base::Bytes(bytes)); };
  char seconds[64];
  std::snprintf(seconds, sizeof seconds, "stalled %.1f of %.1f s", stall_seconds, wall_seconds);
  std::string text = "tensorpager: need " + size(need_bytes) + ", budget " +
                     (budget_bytes < base::kUnlimited.count() ? size(budget_bytes) : "unlimited") + ", peak " +
                     size(peak_bytes) + " (floor " + size(floor_bytes) + "); " + std::to_string(page_outs) +
                     " page-outs " + size(page_out_bytes) + ", " + std::to_string(page_ins) + " page-ins " +
                     size(page_in_bytes) + "; " + seconds;
  if (over_budget_bytes > 0) text += "; OVER BUDGET by " + size(over_budget_bytes);
  if (outside_budget_bytes > 0) text += "; " + size(outside_budget_bytes) + " of foreign memory outside the budget";
  return text;
}

namespace api {

Report public_report(const session::Session::Report& report) {
  Report result;
  static_cast<pager::Statistics&>(result) = report.counts;
  result.spill = report.spill;
  result.outside_budget_bytes = report.outside_budget_bytes;
  result.wall_seconds = report.wall_seconds;
  return result;
}

void write_statistics(const std::string& path, const session::Session::Report& report) {
  nlohmann::ordered_json object{{"device", "cpu"}, {"binding", report.binding}, {"spill", report.spill}};
  report.counts.for_each([&](const char* name, auto value) { object[name] = value; });
  object["outside_budget_bytes"] = report.outside_budget_bytes;
  report.guidance.for_each([&](const char* name, auto value) { object[name] = value; });
  object["wall_seconds"] = report.wall_seconds;
  if (!report.curve.empty()) {
    auto& curve = object["curve"];
    for (const auto& point : report.curve) {
      curve["op"].push_back(point.op);
      curve["live_bytes"].push_back(point.live.count());
      curve["charged_bytes"].push_back(point.charged.count());
    }
  }
  // A spill directory's name need not be UTF-8.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  std::ofstream file(path);
  file << object.dump(1, ' ', false, kReplace) << '\n';
  file.close();
  if (!file) throw base::IoError("write", "the statistics to " + path, base::Bytes(0), errno);
}

}  // namespace api
}  // namespace tensorpager
