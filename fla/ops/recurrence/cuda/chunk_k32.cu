#include "fla/ops/recurrence/cuda/chunk_kernels.cuh"

namespace fla::cuda {
FLA_CHUNK_KERNEL(32, Decay::channel, Rule::delta)
}
