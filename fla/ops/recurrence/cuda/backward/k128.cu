#include "fla/ops/recurrence/cuda/backward/kernels.cuh"

FLA_BACKWARD_KERNELS(128, additive)
FLA_BACKWARD_KERNELS(128, delta)
