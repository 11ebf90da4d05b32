#pragma once

#include "fla/ops/recurrence/cuda/chunk.cuh"

namespace fla::cuda {

/// Both kernels of the chunked form for K padded to KP, on indices that are on the device; checkpoints
/// lie between chunks. Each KP is a file of its own, for they take long to compile.
template <int KP, Decay decay, Rule rule>
cudaError_t launch_operators(const RecurrenceCall& call, void* operators, cudaStream_t stream);
template <int KP, Decay decay, Rule rule>
cudaError_t launch_states(const RecurrenceCall& call, const Checkpoints& checkpoints, void* operators,
                          cudaStream_t stream);

}  // namespace fla::cuda
