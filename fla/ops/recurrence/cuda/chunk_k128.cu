#include "fla/ops/recurrence/cuda/chunk_kernels.cuh"

FLA_CHUNK_KERNELS(128)
