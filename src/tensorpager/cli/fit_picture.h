// Draws what `tensorpager fit` found: samples a second over the size, each point with its overhead.
#pragma once

#include <string>

#include "tensorpager/cli/fit_screen.h"

namespace tensorpager::cli {

/// Writes FILE.html, with the picture and a table of all sizes that were tried, or the picture alone. Throws IoError.
void write_fit_picture(const FitAnswer& answer, const std::string& path);

}  // namespace tensorpager::cli
