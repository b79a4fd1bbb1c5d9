// An estimate, for people and for programs, on standard output.
#pragma once

#include <string>

#include "tensorpager/fit/estimate.h"

namespace tensorpager::cli {

/// One screen.
void print_estimate(const std::string& card, const fit::Estimate& found);
/// One JSON object.
void print_estimate_json(const std::string& card, const fit::Estimate& found);

}  // namespace tensorpager::cli
