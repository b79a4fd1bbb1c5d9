#include "tensorpager/session/session.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "tensorpager/api/report.h"
#include "tensorpager/api/tensorpager.h"
#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"

namespace tensorpager {
namespace {

/// Runs it with our exceptions as the standard library's, so that a program needs no header of ours to catch them.
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

base::Config read_options(const Options& options) {
  std::map<std::string, std::string> given;
  if (options.budget) given["TENSORPAGER_BUDGET"] = options.budget->text();
  if (options.fuzz) given["TENSORPAGER_FUZZ"] = std::to_string(*options.fuzz);
  if (!options.binding.empty()) given["TENSORPAGER_BINDING"] = options.binding;
  if (!options.spill.empty()) given["TENSORPAGER_SPILL"] = options.spill;
  if (!options.stats.empty()) given["TENSORPAGER_STATS"] = options.stats;
  return base::read_config([&](const char* name) -> const char* {
    const auto option = given.find(name);
    return option != given.end() ? option->second.c_str() : std::getenv(name);
  });
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
    if (!stats_.empty()) api::write_statistics(stats_, session::Session::get().report());
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
