#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "fla/core/half.h"
#include "tests/backends/tilelang/emulation/products.h"
#include "tests/emulation/block.h"

namespace fla::tilelang::emulated {
using namespace emulation::block;
}

/// What generated kernels use of CUDA and of TileLang's template headers, for a C++ compiler: this file is
/// there in the place of each of them. Only what the kernels need: another kernel may need more.

#undef __align__
#undef __global__
#undef __grid_constant__
#undef __launch_bounds__
#undef __shared__
#define __align__(bytes)
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ constinit thread_local  // one for all fibers: extern, or else static
#define threadIdx fla::tilelang::emulated::thread_index
#define blockIdx fla::tilelang::emulated::block_index

inline void __syncthreads() { fla::tilelang::emulated::barrier(); }

/// What all threads make of a value each: `combine` of all of theirs.
template <class Combine>
int exchange(int own, Combine&& combine) {
  using namespace fla::tilelang::emulated;
  posted(thread_index.x) = static_cast<std::uint32_t>(own);
  barrier();
  int all = own;
  for (int i = 0; i < thread_count(); ++i)
    all = combine(all, static_cast<int>(static_cast<std::uint32_t>(posted(i))));
  barrier();
  return all;
}
inline int __syncthreads_or(int own) {
  return exchange(own, [](int a, int b) { return int{a != 0 || b != 0}; });
}

// ---- Numbers

using uchar = unsigned char;

namespace cutlass {
struct half_t {
  fla::f16 value;
  half_t() = default;
  explicit half_t(float x) : value(fla::from_float<fla::f16>(x)) {}
  operator float() const { return fla::to_float(value); }
};
struct bfloat16_t {
  fla::bf16 value;
  bfloat16_t() = default;
  explicit bfloat16_t(float x) : value(fla::from_float<fla::bf16>(x)) {}
  operator float() const { return fla::to_float(value); }
};
}  // namespace cutlass
using cutlass::bfloat16_t;
using cutlass::half_t;

struct __half2 {
  fla::f16 x, y;
};
struct __nv_bfloat162 {
  fla::bf16 x, y;
};
using half2 = __half2;

inline float2 __half22float2(__half2 v) { return make_float2(fla::to_float(v.x), fla::to_float(v.y)); }
inline float2 __bfloat1622float2(__nv_bfloat162 v) {
  return make_float2(fla::to_float(v.x), fla::to_float(v.y));
}
inline __half2 __float22half2_rn(float2 v) {
  return {fla::from_float<fla::f16>(v.x), fla::from_float<fla::f16>(v.y)};
}
template <class Half>
unsigned __pack_half2(Half low, Half high) {
  return low.value.bits | unsigned{high.value.bits} << 16;
}
inline unsigned __pack_nv_bfloat162(bfloat16_t low, bfloat16_t high) { return __pack_half2(low, high); }

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float max(float a, float b) { return std::fmax(a, b); }
inline float min(float a, float b) { return std::fmin(a, b); }

namespace tl {

template <class Pair>
Pair from_uint1(uint1 bits) {
  return std::bit_cast<Pair>(bits);
}
template <class Pair>
uint1 to_uint1(Pair pair) {
  return std::bit_cast<uint1>(pair);
}
inline __half2 mul2(__half2 a, __half2 b) {
  return {fla::from_float<fla::f16>(fla::to_float(a.x) * fla::to_float(b.x)),
          fla::from_float<fla::f16>(fla::to_float(a.y) * fla::to_float(b.y))};
}

// ---- Copies

template <int bytes>
void cp_async_gs(void* to, const void* from) {
  fla::tilelang::emulated::copy(to, from, bytes);
}
inline void cp_async_commit() { fla::tilelang::emulated::end_group(); }
template <int groups>
void cp_async_wait() {
  fla::tilelang::emulated::wait_for_groups(groups);
}

// ---- Values of other threads

struct SumOp {};
template <int>
struct NamedBarrier {};

template <class Op, int threads, int scale, int, class Barrier>
struct AllReduce {
  static_assert(std::is_same_v<Op, SumOp> && scale == 1);
  static float run(float x) {
    using namespace fla::tilelang::emulated;
    for (int apart = threads / 2; apart > 0; apart /= 2) {
      posted(thread_index.x) = std::bit_cast<std::uint32_t>(x);
      barrier();
      x += std::bit_cast<float>(static_cast<std::uint32_t>(posted(thread_index.x ^ apart)));
      barrier();
    }
    return x;
  }
};

/// Thread 8 m + r of a warp gives the address of row r of matrix m, thread 4 r + c its columns 2 c and 2 c
/// + 1.
template <class Element>
void ptx_stmatrix_m8n8_x4(Element* row, unsigned m0, unsigned m1, unsigned m2, unsigned m3) {
  using namespace fla::tilelang::emulated;
  const int lane = thread_index.x % 32, warp = thread_index.x - lane;
  posted(thread_index.x) = reinterpret_cast<std::uintptr_t>(row);
  barrier();
  const unsigned values[4] = {m0, m1, m2, m3};
  for (int m = 0; m < 4; ++m) {
    auto* const to = reinterpret_cast<uchar*>(posted(warp + 8 * m + lane / 4));
    std::memcpy(to + lane % 4 * 4, &values[m], 4);
  }
  barrier();
}

// ---- Products of matrices in shared memory: a warp group's wgmma, at once

enum class DataType { kFloat16, kFloat32 };

/// An operand: where it begins in shared memory, in units of 16 bytes, and the two strides likewise.
struct GmmaDescriptor {
  std::uint64_t bits = 0;
  std::uint64_t operator+(std::int64_t units) const { return bits + static_cast<std::uint64_t>(units); }
};

template <int layout, int leading, int stride, class Element>
void initialize_wgmma_descriptor(GmmaDescriptor& descriptor, Element* begin) {
  static_assert(layout == 1, "rows of 128 bytes, swizzled");
  const auto at = reinterpret_cast<const uchar*>(begin) - fla::tilelang::generated::buf_dyn_shmem;
  descriptor.bits =
      static_cast<std::uint64_t>(at >> 4) | std::uint64_t{leading} << 32 | std::uint64_t{stride} << 48;
}
template <class Bytes>
void increase_descriptor_offset(GmmaDescriptor& descriptor, Bytes bytes) {
  descriptor.bits += static_cast<std::uint64_t>(bytes >> 4);
}

template <DataType, DataType, DataType, int M, int N, int K, bool a_mn_major, bool b_mn_major, int, int>
void wgmma_ss(std::uint64_t a, std::uint64_t b, std::uint32_t* accumulator, int keep) {
  static_assert(M == 64 && K == fla::tilelang::emulated::kProductDepth);
  fla::tilelang::emulated::multiply({a, a_mn_major}, {b, b_mn_major}, N,
                                    reinterpret_cast<float*>(accumulator), keep != 0);
}

inline void fence_proxy_async() {}
inline void warpgroup_arrive() {}
inline void warpgroup_commit_batch() {}
inline void warpgroup_fence_operand(float*, int) {}
template <int>
void warpgroup_wait() {}
template <int>
void wait_wgmma() {}

}  // namespace tl

// ---- Magnitudes: what backends/tilelang/magnitudes.cuh has

namespace fla::tilelang {

inline float larger_of(float x, float y) { return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y); }

template <int count>
unsigned bits_of(const void* halves) {
  unsigned bits = 0;
  for (int i = 0; i < count / 2; ++i) bits |= static_cast<const unsigned*>(halves)[i];
  return bits;
}
template <int row, class Element>
float largest_of_row(const Element* values) {
  float largest = 0;
  for (int i = 0; i < 16; ++i)
    largest = larger_of(largest, std::fabs(float{values[i / 2 * 4 + 2 * row + i % 2]}));
  return largest;
}

/// Words of `notes`: the last chunk with a number that is too large, and with one that is large enough.
inline void note(void* notes, int chunk, unsigned bits, float value, float low, float high) {
  int* const all = static_cast<int*>(notes);
  if ((bits & 0x40004000) != 0 || !(value < high)) all[0] = chunk;
  if ((bits & 0x60006000) != 0 || value >= low) all[1] = chunk;
}
inline bool is_rare(const void* notes, int chunk) {
  const int* const all = static_cast<const int*>(notes);
  return all[0] == chunk || all[1] != chunk;
}
inline int exponent_of(float magnitude, int unit) {
  return !std::isfinite(magnitude) ? 100000 : magnitude == 0 ? -100000 : std::ilogb(magnitude) + unit;
}
inline int largest_exponent(void*, float state, float value, int unit) {
  return exchange(max(exponent_of(state, unit), exponent_of(value, 0)),
                  [](int a, int b) { return max(a, b); });
}

}  // namespace fla::tilelang

// ---- Launches: what backends/tilelang/launch.cuh has

namespace fla::tilelang {

using Prepared = std::atomic<std::uint64_t>;

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), Prepared&, dim3 grid, dim3 block, int shared_bytes,
                   cudaStream_t, Arguments... arguments) {
  if (static_cast<std::size_t>(shared_bytes) > generated::kSharedBytes) return cudaErrorInvalidValue;
  emulated::run_grid(grid.x, static_cast<int>(block.x), generated::buf_dyn_shmem,
                     [&] { kernel(arguments...); });
  return cudaSuccess;
}

}  // namespace fla::tilelang
