#pragma once

#include "fla/ops/kda/call_of.h"
#include "fla/ops/kda/cuda/kda_call.h"

namespace fla::cuda {

using fla::call_of;

}  // namespace fla::cuda
