// The names of the layers below that following works with.
#pragma once

#include "tensorpager/base/op_signature.h"
#include "tensorpager/pager/action_source.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"

namespace tensorpager::follow {

using base::name_hash;
using base::OpSignature;
using pager::Action;
using pager::ActionSource;
using pager::Block;
using pager::DueReplay;
using pager::PlacesOfBirths;
using plan::Fill;
using plan::kTemporary;
using plan::Leave;
using plan::Life;
using plan::Liveness;
using plan::Plan;
using plan::Row;
using plan::StorageId;
using plan::Use;

}  // namespace tensorpager::follow
