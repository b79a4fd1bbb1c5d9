// The public form of a session's figures.
#pragma once

#include "tensorpager/api/tensorpager.h"
#include "tensorpager/session/session.h"

namespace tensorpager::api {

/// The session's figures; what guided it and the curve are left out.
Report public_report(const session::Session::Report& report);

}  // namespace tensorpager::api
