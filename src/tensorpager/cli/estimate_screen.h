// Prints an estimate on standard output, as text or as JSON.
#pragma once

#include <string>

#include "tensorpager/fit/estimate.h"

namespace tensorpager::cli {

/// Prints text of one screen.
void print_estimate(const std::string& card, const fit::Estimate& found);
/// Prints one JSON object.
void print_estimate_json(const std::string& card, const fit::Estimate& found);

}  // namespace tensorpager::cli
