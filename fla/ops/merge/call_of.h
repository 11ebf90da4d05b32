#pragma once

#include "fla/core/export.h"
#include "fla/ops/merge/call.h"
#include "fla/ops/merge/merge.h"

namespace fla {

/// The call that validated arguments stand for. `result` is where its results go.
FLA_API MergeCall call_of(const MergeArgs& args, const MergeResult& result);

}  // namespace fla
