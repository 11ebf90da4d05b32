#pragma once

#include "fla/ops/recurrence/cuda/chunk.cuh"

namespace fla::cuda {

/// Both kernels of the chunked form for K padded to KP, on indices that are on the device; each KP is a file
/// of its own, for they take long to compile.
template <int KP, Decay decay, Rule rule>
cudaError_t launch_chunk_kernels(const RecurrenceCall& call, void* operators, cudaStream_t stream);

}  // namespace fla::cuda
