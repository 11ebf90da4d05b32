#include "fla/ops/recurrence/cuda/backward/kernels.cuh"

FLA_BACKWARD_KERNELS(256, additive)
FLA_BACKWARD_KERNELS(256, delta)
