#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "fla/core/half.h"
#include "tests/emulation/block.h"

/// What the original kernels use of CUDA, for a C++ compiler: this file is there in the place of the
/// toolkit's headers, of launch.cuh, early_launch.cuh, instructions.cuh, wgmma.cuh and bulk.cuh. Only what
/// the kernels need: another kernel may need more.

#define __align__(bytes) __attribute__((aligned(bytes)))
#define __device__
#define __global__
#define __grid_constant__
#define __host__
#define __launch_bounds__(...)
#define __shared__ constinit thread_local  // one for all fibers: extern, or else static
#define threadIdx fla::emulation::block::thread_index
#define blockIdx fla::emulation::block::block_index
#define gridDim fla::cuda::grid_size
#define CUDART_NAN_F std::numeric_limits<float>::quiet_NaN()

using cudaError_t = int;
using cudaStream_t = struct CUstream_st*;
inline constexpr cudaError_t cudaSuccess = 0, cudaErrorInvalidConfiguration = 9;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// ---- Numbers

using __half = fla::f16;
using __nv_bfloat16 = fla::bf16;
inline __half __ushort_as_half(unsigned short bits) { return std::bit_cast<__half>(bits); }
inline float __half2float(__half x) { return fla::to_float(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return fla::to_float(x); }
inline __half __float2half_rn(float x) { return fla::from_float<fla::f16>(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return fla::from_float<fla::bf16>(x); }
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline int __popc(std::uint32_t x) { return std::popcount(x); }
using std::isfinite;
template <class A, class B>
auto min(A a, B b) {
  return a < b ? a : b;
}
template <class A, class B>
auto max(A a, B b) {
  return a < b ? b : a;
}

// ---- Threads

inline void __syncthreads() { fla::emulation::block::barrier(); }

namespace fla::emulation::block {
inline int lane() { return thread_index.x % 32; }
template <class T>
T from_lane(T x, int lane) {
  return std::bit_cast<T>(WarpExchange({std::bit_cast<std::uint32_t>(x)})[lane & 31][0]);
}
}  // namespace fla::emulation::block

template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  return fla::emulation::block::from_lane(x, fla::emulation::block::lane() ^ mask);
}
template <class T>
T __shfl_sync(unsigned, T x, int lane) {
  return fla::emulation::block::from_lane(x, lane);
}
inline unsigned __ballot_sync(unsigned, bool x) {
  const fla::emulation::block::WarpExchange brought({x});
  unsigned all = 0;
  for (int lane = 0; lane < 32; ++lane) all |= brought[lane][0] << lane;
  return all;
}
inline bool __any_sync(unsigned lanes, bool x) { return __ballot_sync(lanes, x) != 0; }

[[noreturn]] inline void __trap() { std::abort(); }
inline void __threadfence() {}  // blocks run one after another
template <class T>
T __ldcg(const T* at) {
  return *at;
}
inline std::uint32_t atomicAdd(std::uint32_t* at, std::uint32_t x) {
  const std::uint32_t before = *at;
  *at += x;
  return before;
}
inline std::uint32_t atomicMax(std::uint32_t* at, std::uint32_t x) {
  const std::uint32_t before = *at;
  *at = std::max(before, x);
  return before;
}

// ---- Copies

void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes);
inline void __pipeline_commit() { fla::emulation::block::end_group(); }
inline void __pipeline_wait_prior(int groups) { fla::emulation::block::wait_for_groups(groups); }

// ---- instructions.cuh and launch.cuh

namespace fla::cuda {

void mma_tf32(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
              std::uint32_t b0, std::uint32_t b1);

void mma_f16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
             std::uint32_t b0, std::uint32_t b1);
void mma_bf16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
              std::uint32_t b0, std::uint32_t b1);
inline void mma_f16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0) {
  mma_f16(d, a0, a1, 0, 0, b0, 0);
}
using SharedAddress = std::uintptr_t;
inline SharedAddress shared_address(const void* place) { return reinterpret_cast<SharedAddress>(place); }
uint4 load_matrices(SharedAddress row, bool transposed);
template <bool transposed>
uint4 load_matrices(SharedAddress row) {
  return load_matrices(row, transposed);
}
void store_matrices(SharedAddress row, const uint4& x);
std::uint32_t pack_f16(float x, float y);
std::uint32_t pack_finite_f16(float x, float y);
std::uint32_t pack_bf16(float x, float y);
float2 unpack_f16(std::uint32_t word);
float2 unpack_bf16(std::uint32_t word);
std::uint32_t multiply_f16(std::uint32_t x, std::uint32_t y);
std::uint32_t larger_f16(std::uint32_t x, std::uint32_t y);
std::uint32_t larger_bf16(std::uint32_t x, std::uint32_t y);

inline float exp2_approximately(float x) {
  const float y = std::exp2(x);
  return y < std::numeric_limits<float>::min() ? 0 : y;
}

inline float reciprocal_approximately(float x) { return 1 / x; }
inline void forget(float&) {}
inline void forget(std::uint32_t&) {}

// ---- wgmma.cuh: products happen at once, whatever is waited for

template <bool rows_are_k>
struct Operand {
  std::uint64_t at;
  Operand from(int k, int other = 0) const {
    return {at + static_cast<std::uint64_t>(rows_are_k ? k * 128 + other * 2 : k * 2 + other * 128)};
  }
};
template <bool rows_are_k, class Tile>
Operand<rows_are_k> operand(const Tile& tile) {
  return {shared_address(tile.at)};
}
inline void begin_products() {}
inline void end_products() {}
template <int pending>
void wait_for_products() {}
inline void show_to_products() {}
template <class T>
void keep(T&) {}
/// Of the lane's two rows of a left operand.
using LeftNumbers = float[2][16];
void left_numbers(const uint4& a, LeftNumbers& numbers);
void left_numbers(bool rows_are_k, std::uint64_t a, LeftNumbers& numbers);
void add_product(int tiles, float (*d)[4], const LeftNumbers& a, bool rows_are_k, std::uint64_t b);
template <bool add = true, int tiles, bool rows_are_k>
void add_product(float (&d)[tiles][4], const LeftNumbers& a, Operand<rows_are_k> b) {
  if (!add) std::fill(&d[0][0], &d[0][0] + 4 * tiles, 0.0f);
  add_product(tiles, d, a, rows_are_k, b.at);
}
template <bool add = true, int tiles, bool rows_are_k>
void add_product(float (&d)[tiles][4], const uint4& a, Operand<rows_are_k> b) {
  LeftNumbers numbers;
  left_numbers(a, numbers);
  add_product<add>(d, numbers, b);
}
template <bool add = true, int tiles, bool a_rows_are_k, bool b_rows_are_k>
void add_product(float (&d)[tiles][4], Operand<a_rows_are_k> a, Operand<b_rows_are_k> b) {
  LeftNumbers numbers;
  left_numbers(a_rows_are_k, a.at, numbers);
  add_product<add>(d, numbers, b);
}

// ---- bulk.cuh

inline constexpr bool kHasBulkCopies = true;
struct alignas(8) Arrival {
  std::int32_t missing, round;  ///< bytes of the round that is on its way

  void begin() { missing = round = 0; }
  void expect(std::uint32_t bytes) { missing += static_cast<std::int32_t>(bytes); }
  void wait(int of_round);
};
void copy_bulk(void* to, const void* from, std::uint32_t bytes, Arrival& arrival);
template <int threads>
void meet() {
  __syncthreads();
}

inline constexpr std::size_t kSharedBytes = 227 * 1024;  ///< of a block on sm_90
extern constinit thread_local char shared[];             ///< as the kernels call it

extern dim3 grid_size;  ///< of the kernel that runs
void run_grid(dim3 grid, int threads, const std::function<void()>& body);

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes, cudaStream_t,
                   const Arguments&... arguments) {
  if (static_cast<std::size_t>(shared_bytes) > kSharedBytes) return cudaErrorInvalidConfiguration;
  run_grid(grid, threads, [&] { kernel(arguments...); });
  return cudaSuccess;
}

template <auto kernel>
cudaError_t allow_shared_memory(int bytes) {
  return static_cast<std::size_t>(bytes) > kSharedBytes ? cudaErrorInvalidConfiguration : cudaSuccess;
}

template <auto kernel, int shared_bytes, class... Arguments>
cudaError_t launch_blocks(std::int64_t blocks, int threads, cudaStream_t stream,
                          const Arguments&... arguments) {
  return launch(kernel, {.x = static_cast<unsigned>(blocks)}, threads, shared_bytes, stream, arguments...);
}

// ---- early_launch.cuh

inline void wait_for_kernel_before() {}
template <class... Parameters, class... Arguments>
cudaError_t launch_early(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes, bool,
                         cudaStream_t stream, const Arguments&... arguments) {
  return launch(kernel, grid, threads, shared_bytes, stream, arguments...);
}

}  // namespace fla::cuda
