#pragma once

#include "fla/ops/common/cuda/launch.cuh"

/// What a call that leaves P starts from (transition_of in call_of.h).
namespace fla::cuda {

inline constexpr int kIdentityThreads = 128;

/// A block writes a row. A template, so that several sources may have it.
template <int threads>
__global__ void identity_rows(float* zero, float* identity, int size) {
  const int row = static_cast<int>(blockIdx.x);
  for (int j = static_cast<int>(threadIdx.x); j < size; j += threads)
    identity[row * size + j] = row == j ? 1.0f : 0.0f;
  if (row == 0 && threadIdx.x == 0) *zero = 0;
}

/// A zero, and an identity of size * size floats.
inline cudaError_t write_identity(float* zero, float* identity, int size, cudaStream_t stream) {
  return launch_blocks<identity_rows<kIdentityThreads>, 0>(size, kIdentityThreads, stream, zero, identity,
                                                           size);
}

}  // namespace fla::cuda
