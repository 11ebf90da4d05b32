#pragma once

#include "fla/ops/kda/cuda/kda_call.h"

namespace fla::cuda {

/// Both kernels of the chunked form for K padded to KP, on indices that are on the device; each KP is a file
/// of its own, for they take long to compile.
template <int KP>
cudaError_t launch_chunk_kernels(const RecurrenceCall& call, void* operators, cudaStream_t stream);

}  // namespace fla::cuda
