// One analysis of a recorded stream: finds the windows, makes a machine from the costs measured so far, and plans the
// classes that make up most of the program.
#pragma once

#include <cstdint>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/result.h"
#include "tensorpager/guide/profile.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/pager/costs.h"
#include "tensorpager/plan/plan_cache.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::guide {

enum class NoProfile : std::uint8_t {
  kNoWindow,    // no window came twice
  kFits,        // all of it is within the budget
  kBelowFloor,  // some op needs more than the budget
};

/// The machine that a session runs on, by the measured costs of its transfers: recorded op times hold as they are.
machine::Machine machine_of(const pager::TransferCosts& costs);
/// By the costs since `before`, if those of enough transfers are known: under a plan transfer threads do what ops did
/// before it.
machine::Machine machine_since(const pager::TransferCosts& before, const pager::TransferCosts& now);

struct AnalysisOptions {
  const Profile* known = nullptr;          // the profile before, of the same thread; its classes are planned too
  const plan::PlanCache* cache = nullptr;  // plans of earlier sessions, which are used if not all classes are known
  std::string planner = "pages";           // see planning::make_planner
};

base::Result<Profile, NoProfile> analyse(const trace::Stream& stream, base::Bytes budget,
                                         const machine::Machine& machine, const AnalysisOptions& options = {});

/// Keeps the plans for later sessions. Throws IoError.
void keep(const Profile& profile, base::Bytes budget, const plan::PlanCache& cache);

}  // namespace tensorpager::guide
