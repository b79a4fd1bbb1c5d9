// The public form of a session's figures.
#pragma once

#include "tensorpager/api/tensorpager.h"
#include "tensorpager/session/session.h"

namespace tensorpager::api {

/// The session's figures, without those of the guide and the curve.
Report public_report(const session::Session::Report& report);

}  // namespace tensorpager::api
