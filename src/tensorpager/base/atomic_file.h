// Files that are written whole or not at all: pools and launchers kill children at any moment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensorpager::base {

enum class Existing : std::uint8_t { kReplace, kKeep };

/// Writes `contents` to a file beside `path`, which then takes its name. A pipe or a device, to which all may write, is
/// written directly. Returns false, and changes nothing, if `path` exists and is to be kept. Throws IoError.
bool write_atomically(const std::string& path, std::string_view contents, Existing existing);

}  // namespace tensorpager::base
