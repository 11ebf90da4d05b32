#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "fla/ops/recurrence/cuda/states.cuh"

/// Inputs of a head are multiplied by a power of two that follows their largest absolute value, and results
/// by its inverse: so results scale exactly with what comes in.
namespace fla::cuda {

/// A power of two that brings the largest number, of which these are the bits, near 2^-room, and its inverse.
/// Both are normal numbers.
template <int room = 0>
struct Scale {
  float down, up;

  __device__ explicit Scale(std::uint32_t largest) {
    const int exponent = min(max(static_cast<int>(largest >> 23) - 127, -126), 126 - room) + room;
    const auto power = [](int e) { return __uint_as_float(static_cast<std::uint32_t>(127 + e) << 23); };
    const bool any = largest != 0;
    down = any ? power(-exponent) : 1, up = any ? power(exponent) : 1;
  }
};

__device__ inline void see(float& largest, float x) { largest = fmaxf(largest, fabsf(x)); }

/// The largest of a warp. Maxima do not depend on the order of the atomics.
__device__ inline void add_largest(float most, std::uint32_t* largest) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) see(most, __shfl_xor_sync(~0u, most, mask));
  if (threadIdx.x % 32 == 0) atomicMax(largest, __float_as_uint(most));
}

/// The largest of a thread's numbers of a state; all `threads` of a block call this.
template <int threads>
__device__ float largest_of_state(const RecurrenceCall& call, const States& states, std::int64_t n,
                                  int head) {
  constexpr int kAtOnce = 16;  // loads under way
  float most = 0;
  if (!states.data) return most;
  // Neighbouring threads read neighbouring numbers.
  const bool along_keys = states.key == 1;
  const auto row = static_cast<unsigned>(along_keys ? call.K : call.V);
  const std::int64_t step = along_keys ? states.key : states.value,
                     next_row = along_keys ? states.value : states.key;
  const std::int64_t from = states.offset(n, head);
  const auto count = static_cast<unsigned>(call.K * call.V);
#pragma unroll 1
  for (unsigned first = threadIdx.x; first < count; first += kAtOnce * threads) {
    std::uint32_t bits[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const unsigned i = first + j * threads;
      bits[j] = i < count ? load_bits(states.data, is_16_bit(states.dtype),
                                      from + i / row * next_row + i % row * step)
                          : 0;
    }
    float x[kAtOnce];
    to_floats(bits, states.dtype, x);
#pragma unroll
    for (const float each : x) see(most, each);
  }
  return most;
}

template <int threads>
__global__ void __launch_bounds__(threads) clear(std::uint32_t* words, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count) words[i] = 0;
}

}  // namespace fla::cuda
