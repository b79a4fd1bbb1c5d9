// Where the Python part lies, seen from where this program is installed.
#pragma once

#include <filesystem>

namespace tensorpager::cli {

/// The directory `tensorpager` in site-packages. Throws InvalidArgument where it is missing.
std::filesystem::path python_package();

}  // namespace tensorpager::cli
