// Plan files: versioned text, one record a line (docs/formats.md).
#pragma once

#include <iosfwd>
#include <string>

#include "tensorpager/plan/plan.h"

namespace tensorpager::plan {

/// Throws InvalidArgument, which names file, line and field. What it returns is well formed, but not yet right for any
/// trace: that is the validator's question. The predicted curve is not kept in files.
Plan read_plan(std::istream& in, const std::string& path);
Plan read_plan_file(const std::string& path);

/// The text that read_plan reads back as an equal value, but for the curve.
std::string write_plan(const Plan& plan);

const char* name_of(Fill fill);
const char* name_of(Leave leave);

}  // namespace tensorpager::plan
