#include "tensorpager/session/session.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>

#include "tensorpager/api/report.h"
#include "tensorpager/api/tensorpager.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/base/options.h"
#include "tensorpager/session/statistics_file.h"

namespace tensorpager {
namespace {

/// Rethrows our exceptions as the standard library's, so that a program needs no header of ours to catch them.
template <typename Run>
void with_standard_exceptions(Run&& run) {
  try {
    run();
  } catch (const base::InvalidArgument& error) {
    throw std::invalid_argument(std::string("Tensorpager: ") + error.what());
  } catch (const base::IoError& error) {
    throw std::runtime_error(std::string("Tensorpager: ") + error.what());
  } catch (const base::OverBudget& error) {
    throw std::runtime_error(std::string("Tensorpager: what an earlier session made: ") + error.what());
  }
}

using Text = std::optional<std::string>;

Text text_of(const std::string& value) { return value.empty() ? Text() : value; }
Text text_of(const std::optional<Size>& value) { return value ? value->text() : Text(); }
Text text_of(const std::optional<bool>& value) { return value ? (*value ? "1" : "0") : Text(); }
Text text_of(const std::optional<std::uint64_t>& value) { return value ? std::to_string(*value) : Text(); }

base::Config read_options(const Options& options) {
  const auto& [budget, device, pinned, binding, spill, link, plan, plan_cache, on_demand, recompute, plan_sync, stats,
               quiet, fuzz, verify_replay] = options;
  const std::map<std::string, Text> fields{{"budget", text_of(budget)},
                                           {"device", text_of(device)},
                                           {"pinned", text_of(pinned)},
                                           {"binding", text_of(binding)},
                                           {"spill", text_of(spill)},
                                           {"link", text_of(link)},
                                           {"plan", text_of(plan)},
                                           {"plan_cache", text_of(plan_cache)},
                                           {"on_demand", text_of(on_demand)},
                                           {"recompute", text_of(recompute)},
                                           {"plan_sync", text_of(plan_sync)},
                                           {"stats", text_of(stats)},
                                           {"quiet", text_of(quiet)},
                                           {"fuzz", text_of(fuzz)},
                                           {"verify_replay", text_of(verify_replay)}};
  std::map<std::string, std::string> given;
  for (const base::Option& option : base::options()) {
    if (!option.is_taken_by(base::Taker::kCpp)) continue;
    const auto field = fields.find(option.keyword());
    TENSORPAGER_CHECK(field != fields.end());
    if (field->second) given[field->first] = *field->second;
  }
  return base::read_config(&std::getenv, base::Taker::kCpp, given);
}

}  // namespace

Session::Session(const Options& options) {
  with_standard_exceptions([&] {
    if (session::Session::get().active())
      throw base::InvalidArgument("a session is active already, by an earlier Session or by `tensorpager run`");
    const base::Config config = read_options(options);
    session::Session::get().enable(config);
    stats_ = config.stats;
  });
}

void Session::end() {
  if (!active_) return;
  with_standard_exceptions([&] {
    session::Session::get().disable();
    active_ = false;
    if (!stats_.empty()) session::write_statistics(session::Session::get().report(), {.path = stats_});
  });
}

Session::~Session() {
  try {
    end();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

Report Session::report() const { return api::public_report(session::Session::get().report()); }

}  // namespace tensorpager
