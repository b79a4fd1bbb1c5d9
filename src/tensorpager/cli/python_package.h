// Finds the Python package, relative to where this program is installed.
#pragma once

#include <filesystem>

namespace tensorpager::cli {

/// Returns the directory `tensorpager` in site-packages. Throws InvalidArgument if it is missing.
std::filesystem::path python_package();

}  // namespace tensorpager::cli
