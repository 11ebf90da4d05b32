#include "fla/ops/recurrence/cuda/chunk_kernels.cuh"

template cudaError_t fla::cuda::launch_chunk_kernels<32, fla::cuda::Decay::channel, fla::Rule::delta>(
    const RecurrenceCall&, const Checkpoints&, void*, cudaStream_t);
