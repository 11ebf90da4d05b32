#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::intracard_cp {

/// Where the original kernels run.
inline constexpr cuda::ComputeCapability kDevices{80, true, "8.0"};

/// Whether intracard_cp takes this call of an op's chunked function on that device, the one of its tensors;
/// null where there is no such GPU. It takes what the original kernels take, where cutting pays: few heads of
/// few long sequences. Batches have to follow each other, for parts are packed sequences.
Verdict verify(const recurrence::Arguments& args, const CudaDevice* device);

template <RecurrenceArgs Args>
Verdict verify(const Args& args, const CudaDevice* device) {
  return verify(recurrence::arguments_of(args), device);
}

}  // namespace fla::intracard_cp
