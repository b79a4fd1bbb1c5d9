// The names of the layers below that planning works with.
#pragma once

#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/boundary_table.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/plan/timing.h"

namespace tensorpager::planning {

using machine::Link;
using machine::Machine;
using machine::Nanoseconds;
using plan::Boundary;
using plan::BoundaryEntry;
using plan::BoundaryTable;
using plan::Fill;
using plan::Idle;
using plan::kTemporary;
using plan::Leave;
using plan::Life;
using plan::Liveness;
using plan::Plan;
using plan::Prediction;
using plan::Replay;
using plan::Row;
using plan::StorageId;
using plan::Technique;
using plan::Timing;
using plan::Touch;
using plan::Use;

}  // namespace tensorpager::planning
