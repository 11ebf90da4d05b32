#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "fla/ops/common/cuda/instructions.cuh"
#include "fla/ops/common/cuda/mma.cuh"

/// Products of a warpgroup, four warps of which each has 16 rows of the result; tests/emulation has others in
/// their place. They are asynchronous: begin_products(), products, end_products(), and what they read and
/// wrote is to be left alone until wait_for_products(). What threads wrote to shared memory needs
/// show_to_products() between, by the writers and before a barrier.
namespace fla::cuda {

/// An operand in shared memory: rows of 64 f16 numbers, 128 bytes, whose 16-byte pieces are permuted by the
/// row's number; 8 rows begin at a multiple of 1024 bytes. Its rows are the k that is contracted over, or
/// else its columns.
template <bool rows_are_k>
struct Operand {
  std::uint64_t descriptor;

  /// From k on, and from the row of A, or the column of B, `other` on.
  __device__ Operand from(int k, int other = 0) const {
    return {descriptor +
            static_cast<std::uint64_t>((rows_are_k ? k * 128 + other * 2 : k * 2 + other * 128) >> 4)};
  }
};
template <bool rows_are_k, class Tile>
__device__ Operand<rows_are_k> operand(const Tile& tile) {
  constexpr std::uint64_t kEightRows = 1024 >> 4, kPermuted = std::uint64_t{1} << 62;
  return {(shared_address(tile.at) & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | kEightRows << 32 | kPermuted};
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
__device__ inline void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// After the wait: that these were written, or read, until now.
template <int tiles>
__device__ void keep(Fragment (&x)[tiles]) {
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(x[n][i])::"memory");
  }
}
template <int count>
__device__ void keep(uint4 (&x)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+r"(x[i].x), "+r"(x[i].y), "+r"(x[i].z), "+r"(x[i].w)::"memory");
}

#define FLA_TILE(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define FLA_TILES(n) FLA_TILE(n), FLA_TILE(n + 1), FLA_TILE(n + 2), FLA_TILE(n + 3)

/// d += A B, or d = A B if not to `add`, over 16 of k: A of the warp's 16 rows in registers, or of the
/// warpgroup's 64 in shared memory. d = A B needs registers that hold nothing yet: ptxas may compute a value
/// again from their old contents after the product has overwritten these.
template <bool add = true, bool rows_are_k>
__device__ void add_product(Fragment (&d)[8], const uint4& a, Operand<rows_are_k> b) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %38, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, add, 1, 1, %37;}"
      : FLA_TILES(0), FLA_TILES(4)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b.descriptor), "n"(rows_are_k ? 1 : 0), "n"(add ? 1 : 0));
}
template <bool add = true, bool rows_are_k>
__device__ void add_product(Fragment (&d)[16], const uint4& a, Operand<rows_are_k> b) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %70, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, add, 1, 1, %69;}"
      : FLA_TILES(0), FLA_TILES(4), FLA_TILES(8), FLA_TILES(12)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b.descriptor), "n"(rows_are_k ? 1 : 0), "n"(add ? 1 : 0));
}
template <bool add = true, bool a_rows_are_k, bool b_rows_are_k>
__device__ void add_product(Fragment (&d)[4], Operand<a_rows_are_k> a, Operand<b_rows_are_k> b) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %20, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, add, 1, 1, %18, %19;}"
      : FLA_TILES(0)
      : "l"(a.descriptor), "l"(b.descriptor), "n"(a_rows_are_k ? 1 : 0), "n"(b_rows_are_k ? 1 : 0),
        "n"(add ? 1 : 0));
}
template <bool add = true, bool a_rows_are_k, bool b_rows_are_k>
__device__ void add_product(Fragment (&d)[8], Operand<a_rows_are_k> a, Operand<b_rows_are_k> b) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %36, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, add, 1, 1, %34, %35;}"
      : FLA_TILES(0), FLA_TILES(4)
      : "l"(a.descriptor), "l"(b.descriptor), "n"(a_rows_are_k ? 1 : 0), "n"(b_rows_are_k ? 1 : 0),
        "n"(add ? 1 : 0));
}

#undef FLA_TILES
#undef FLA_TILE

}  // namespace fla::cuda
