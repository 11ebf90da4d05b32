#pragma once

#include <cstdint>

#include "fla/core/cuda_devices.h"
#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::intracard_cp {

/// Where the original kernels run.
inline constexpr cuda::ComputeCapability kDevices{80, true, "8.0"};

/// Whether intracard_cp takes this call of an op's chunked function on that device, the one of its tensors;
/// null where there is no such GPU. It takes what the original kernels take, where cutting pays: few heads of
/// few sequences of so many tokens on average. Batches have to follow each other, for parts are packed
/// sequences.
Verdict verify(const recurrence::Arguments& args, const CudaDevice* device, std::int64_t least_tokens);

template <RecurrenceArgs Args>
Verdict verify(const Args& args, const CudaDevice* device, std::int64_t least_tokens) {
  return verify(recurrence::arguments_of(args), device, least_tokens);
}

}  // namespace fla::intracard_cp
