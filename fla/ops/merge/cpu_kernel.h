#pragma once

#include "fla/ops/merge/call.h"

namespace fla {

void merge_on_cpu(const MergeCall& call);

}  // namespace fla
