#pragma once

#include "fla/ops/gated_rms_norm/call.h"

namespace fla {

/// Throws nothing for rows of up to 256 channels.
void gated_rms_norm_on_cpu(const GatedRmsNormCall& call);

}  // namespace fla
