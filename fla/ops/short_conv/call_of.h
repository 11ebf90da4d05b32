#pragma once

#include "fla/core/export.h"
#include "fla/ops/short_conv/call.h"
#include "fla/ops/short_conv/short_conv.h"

namespace fla {

/// The call that validated arguments stand for. `result` is where its results go.
FLA_API ShortConvCall call_of(const ShortConvArgs& args, const ShortConvResult& result);

}  // namespace fla
