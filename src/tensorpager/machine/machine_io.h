// Machine files: versioned text, one record a line (docs/formats.md).
#pragma once

#include <iosfwd>
#include <string>

#include "tensorpager/machine/machine.h"

namespace tensorpager::machine {

/// Throws InvalidArgument with file, line and field.
Machine read_machine(std::istream& in, const std::string& path);

/// The text that read_machine reads.
std::string write_machine(const Machine& machine);

/// Returns a named machine, or else the one in the file of that name.
Machine find_machine(const std::string& name_or_path);

}  // namespace tensorpager::machine
