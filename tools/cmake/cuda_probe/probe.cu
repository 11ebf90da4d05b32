#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <span>

namespace {
__global__ void kernel(float* x) { *x = 1; }
}  // namespace

cudaError_t probe(std::span<float> x) {
  kernel<<<1, 1>>>(x.data());
  return cudaGetLastError();
}
