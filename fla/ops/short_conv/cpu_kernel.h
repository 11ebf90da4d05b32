#pragma once

#include "fla/ops/short_conv/call.h"

namespace fla {

/// Runs the call, whose indices are on the host and right. It may be without o, or without a state to write.
/// Throws nothing.
void short_conv_on_cpu(const ShortConvCall& call);

}  // namespace fla
