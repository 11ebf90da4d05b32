#pragma once

#include "fla/core/export.h"
#include "fla/ops/gated_rms_norm/call.h"
#include "fla/ops/gated_rms_norm/gated_rms_norm.h"

namespace fla {

/// The call that validated arguments stand for. `result` is where its results go.
FLA_API GatedRmsNormCall call_of(const GatedRmsNormArgs& args, const GatedRmsNormResult& result);

}  // namespace fla
