// Plans from files, which a session follows from its first op on instead of making its own.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

struct GivenPlan {
  trace::Trace trace;
  Plan plan;
};

/// Splits a list of paths at each `:`.
std::vector<std::string> split_paths(const std::string& paths);

/// Reads `paths`, plan files separated by `:`; the trace of `x.plan` is `x.trace` in the same directory. Throws
/// InvalidArgument with the file, if one cannot be read, is not valid for its trace or for blocks of this device, or is
/// for a larger budget; or if several do not share a boundary table.
std::vector<GivenPlan> read_given_plans(const std::string& paths, base::Bytes budget = base::kUnlimited,
                                        base::Device device = base::Device::kHost);

/// Reads the user-supplied plans of a session. Throws InvalidArgument too if plans are switched off.
std::vector<GivenPlan> read_plans_of(const base::Config& config);

/// The largest budget of these plans, of which there must be one at least.
base::Bytes budget_of(const std::vector<GivenPlan>& given);

}  // namespace tensorpager::plan
