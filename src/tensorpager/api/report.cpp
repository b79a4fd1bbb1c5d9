#include "tensorpager/api/report.h"

#include "tensorpager/session/exit_line.h"

namespace tensorpager {

std::string Report::summary() const {
  return "tensorpager: " +
         session::exit_line(
             {.counts = *this, .outside_budget_bytes = outside_budget_bytes, .wall_seconds = wall_seconds});
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

}  // namespace api
}  // namespace tensorpager
