// The statistics for people and for files: what `tensorpager run` prints and writes, whatever language the program is
// in.
#pragma once

#include <string>

#include "tensorpager/api/tensorpager.h"
#include "tensorpager/session/session.h"

namespace tensorpager::api {

/// The session's figures in the public form; the curve is left out.
Report public_report(const session::Session::Report& report);

/// Writes docs/formats.md's object. Throws IoError where the file cannot be written.
void write_statistics(const std::string& path, const session::Session::Report& report);

}  // namespace tensorpager::api
