#include "fla/ops/kda/cuda/chunk_kernels.cuh"

template cudaError_t fla::cuda::launch_chunk_kernels<32>(const RecurrenceCall&, void*, cudaStream_t);
