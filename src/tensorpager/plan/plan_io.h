// Plan files: versioned text, one record a line (docs/formats.md).
#pragma once

#include <iosfwd>
#include <string>

#include "tensorpager/plan/plan.h"

namespace tensorpager::plan {

/// Throws InvalidArgument with file, line and field. The plan that it returns is well-formed; whether it is valid for a
/// trace, only the validator checks. Files do not contain the predicted curve.
Plan read_plan(std::istream& in, const std::string& path);
Plan read_plan_file(const std::string& path);

/// The text from which read_plan makes an equal plan, without the curve.
std::string write_plan(const Plan& plan);

const char* name_of(Fill fill);
const char* name_of(Leave leave);
/// `none` for kNone, which files leave out.
const char* name_of(Technique technique);

}  // namespace tensorpager::plan
