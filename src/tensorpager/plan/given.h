// Plans in files, that a session follows from its first op on instead of making its own.
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

/// Plan files, as they are named in one text, separated by `:`.
std::vector<std::string> split_paths(const std::string& paths);

/// `paths`: plan files, separated by `:`; the trace of `x.plan` is `x.trace`, beside it. Throws InvalidArgument, which
/// names the file, where one cannot be read, is not right for its trace or for bindings on this machine, or is for a
/// larger budget; or where several do not share a boundary table.
std::vector<GivenPlan> read_given_plans(const std::string& paths, base::Bytes budget = base::kUnlimited);

/// Those that a session is to follow, which may not be told to make no plan.
std::vector<GivenPlan> read_plans_of(const base::Config& config);

/// The budget that all of them are for. At least one.
base::Bytes budget_of(const std::vector<GivenPlan>& given);

}  // namespace tensorpager::plan
