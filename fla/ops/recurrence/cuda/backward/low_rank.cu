#include "fla/ops/recurrence/cuda/backward/kernels.cuh"

FLA_BACKWARD_KERNELS(128, low_rank)
FLA_BACKWARD_KERNELS(256, low_rank)
