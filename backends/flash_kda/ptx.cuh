#pragma once

#include <cstdint>

#include "backends/flash_kda/vectors.h"

// clang-format off
/// Hopper's instructions as functions: the only place with inline PTX, and with CuTe's wgmma atoms. Kernel bodies call nothing else of the
/// hardware, so that they compile for a CPU too: a host compiler takes every function of this page from
/// emulated_ptx.h, found on the include path, instead.
///
/// Conventions
///   Smem       an address in the CTA's shared memory (32-bit window). Kernel bodies get the base from their
///              caller.
///   threads    thread(), block() and blocks() name the caller; `lane` is thread() % 32.
///   collective ldmatrix*, stmatrix*, transposed, mma*, any, largest, bits_of_all, warp_sync: 32 lanes of a warp. wgmma*,
///              registers_*: 4 warps of a warpgroup. barrier(b, n): the n threads that name b
///              (barriers.cuh).
///   wgmma      asynchronous from wgmma_fence to wgmma_wait; accumulators and A registers are untouched
///              between (keep() pins them in the compiler's eyes). Operands in shared memory by descriptor
///              (layout.cuh).
///   proxies    what threads wrote to shared memory and wgmma, TMA or a bulk copy reads next needs
///              fence_async_shared() between: by the writers before their barrier, or by the thread that
///              starts the copy after it; for global memory fence_async_global().
///   mbarrier   one phase = the arrivals given to mbar_init, and the bytes of mbar_expect; wait for the
///              phase's parity.
///   bulk       stores and their waits belong to the issuing thread. bulk_wait_read: sources may be
///              rewritten; bulk_wait: the writes are there.
// clang-format on
#ifdef __CUDACC__

#include <cuda.h>
#include <cuda_fp16.h>
#include <cutlass/arch/reg_reconfig.h>

#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/mma_sm90_gmma.hpp>
#include <utility>

#define FLA_DEVICE __device__ __forceinline__
#define FLA_BOTH __host__ __device__

namespace fla::flash_kda {

using Smem = std::uint32_t;
using TensorMap = CUtensorMap;
enum class Barrier : std::uint32_t;  // barriers.cuh

// ---- Threads

FLA_DEVICE std::uint32_t thread() { return threadIdx.x; }
FLA_DEVICE std::uint32_t block() { return blockIdx.x; }
FLA_DEVICE std::uint32_t blocks() { return gridDim.x; }
/// The SM this runs on; two in a row share what is between them and the other SMs.
FLA_DEVICE std::uint32_t processor() {
  std::uint32_t x;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(x));
  return x;
}
/// The same value for the whole warp, known as such to the compiler: roles must branch on it.
FLA_DEVICE std::uint32_t uniform(std::uint32_t x) { return __shfl_sync(0xffffffffu, x, 0); }
/// x, kept in a register: the compiler does not compute it again.
FLA_DEVICE std::uint32_t kept(std::uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
/// In a branch that is rarely taken: it stays a branch.
FLA_DEVICE void rarely() { asm volatile(""); }
FLA_DEVICE void warp_sync() { __syncwarp(); }
/// One lane of a whole warp, the same one each time. The compiler knows that it is one: TMA without a loop
/// over lanes.
FLA_DEVICE bool elected() { return cute::elect_one_sync(); }
/// x of another lane.
FLA_DEVICE std::int32_t shuffle(std::int32_t x, std::uint32_t from) {
  return __shfl_sync(0xffffffffu, x, from);
}
FLA_DEVICE bool any(bool x) { return __any_sync(0xffffffffu, x); }
FLA_DEVICE float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
/// The largest x of the warp's lanes.
FLA_DEVICE std::uint32_t largest(std::uint32_t x) { return __reduce_max_sync(0xffffffffu, x); }
/// The bits that any of the warp's lanes has.
FLA_DEVICE std::uint32_t bits_of_all(std::uint32_t x) { return __reduce_or_sync(0xffffffffu, x); }
FLA_DEVICE void barrier(Barrier id, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(static_cast<std::uint32_t>(id)), "r"(threads) : "memory");
}
/// Arrives at a barrier that others wait at, and goes on: they see what was written before.
FLA_DEVICE void barrier_arrive(Barrier id, std::uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(static_cast<std::uint32_t>(id)), "r"(threads) : "memory");
}
template <int count>
FLA_DEVICE void registers_down() {
  cutlass::arch::warpgroup_reg_dealloc<count>();
}
template <int count>
FLA_DEVICE void registers_up() {
  cutlass::arch::warpgroup_reg_alloc<count>();
}
FLA_DEVICE std::uint32_t clock_now() {
  std::uint32_t t;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory");
  return t;
}

// ---- Kernels in a row

/// What the kernel before wrote is there.
FLA_DEVICE void wait_for_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// The next kernel may be brought onto the device.
FLA_DEVICE void let_next_kernel_come() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// ---- Between CTAs, through global memory

FLA_DEVICE std::uint32_t load_acquire(const std::uint32_t* at) {
  std::uint32_t x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}
FLA_DEVICE void store_release(std::uint32_t* at, std::uint32_t x) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(x) : "memory");
}
FLA_DEVICE std::uint32_t fetch_add(std::uint32_t* at, std::uint32_t x) { return atomicAdd(at, x); }

// ---- Mbarriers

FLA_DEVICE void mbar_init(Smem bar, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
/// After the last mbar_init, by the same thread, before the CTA's barrier.
FLA_DEVICE void mbar_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
FLA_DEVICE void mbar_arrive(Smem bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/// For `count` who do not arrive themselves.
FLA_DEVICE void mbar_arrive(Smem bar, std::uint32_t count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
/// One arrival, and `bytes` more that copies will bring.
FLA_DEVICE void mbar_expect(Smem bar, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
FLA_DEVICE bool mbar_try(Smem bar, std::uint32_t parity) {
  std::uint32_t ok;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(ok)
      : "r"(bar), "r"(parity)
      : "memory");
  return ok != 0;
}

/// Waits end after about a second in test builds (FLA_FLASH_BOUNDED), with whatever is there then: a wrong
/// result is found, a machine that hangs is not. No trap: an exit under setmaxnreg makes ptxas serialise
/// every wgmma.
struct Patience {
#ifdef FLA_FLASH_BOUNDED
  std::uint32_t left = 1u << 30, start = 0;
  FLA_DEVICE void begin() { start = clock_now(); }
  FLA_DEVICE bool out() { return clock_now() - start >= left && (left = 0, true); }
#else
  FLA_DEVICE void begin() {}
  FLA_DEVICE bool out() { return false; }
#endif
};
FLA_DEVICE void mbar_wait(Smem bar, std::uint32_t parity, Patience& patience) {
  if (mbar_try(bar, parity)) return;
  patience.begin();
  while (!mbar_try(bar, parity) && !patience.out()) {
  }
}
/// Until *at >= value, counted modulo 2^32.
FLA_DEVICE void wait_at_least(const std::uint32_t* at, std::uint32_t value, Patience& patience) {
  if (static_cast<std::int32_t>(load_acquire(at) - value) >= 0) return;
  patience.begin();
  while (static_cast<std::int32_t>(load_acquire(at) - value) < 0 && !patience.out()) __nanosleep(200);
}

/// A counter in shared memory that one thread raises and others of the CTA wait for, with all it did before.
FLA_DEVICE void store_release_shared(Smem at, std::uint32_t x) {
  asm volatile("st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}
/// Until it is at least `value`; what it is then.
FLA_DEVICE std::uint32_t wait_shared_at_least(Smem at, std::uint32_t value, Patience& patience) {
  const auto load = [&] {
    std::uint32_t x;
    asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
    return x;
  };
  std::uint32_t x = load();
  if (x >= value) return x;
  patience.begin();
  while ((x = load()) < value && !patience.out()) {
  }
  return x >= value ? x : ~0u;
}

// ---- Copies

FLA_DEVICE void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FLA_DEVICE void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
FLA_DEVICE void prefetch(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Boxes of maps of rank 4, from (c, h, t, b) on. What they carry is used once: it is the first to leave L2,
/// where packets are to stay.
inline constexpr auto kUsedOnce = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST);
FLA_DEVICE void tma_load(Smem to, const TensorMap* map, Smem bar, int c, int h, int t, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(bar), "r"(c), "r"(h), "r"(t), "r"(b), "l"(kUsedOnce)
      : "memory");
}
FLA_DEVICE void tma_store(const TensorMap* map, Smem from, int c, int h, int t, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3, %4, %5}], "
      "[%1], "
      "%6;" ::"l"(map),
      "r"(from), "r"(c), "r"(h), "r"(t), "r"(b), "l"(kUsedOnce)
      : "memory");
}
FLA_DEVICE void bulk_load(Smem to, const void* from, std::uint32_t bytes, Smem bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(bar)
      : "memory");
}
FLA_DEVICE void bulk_store(void* to, Smem from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
FLA_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
FLA_DEVICE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
FLA_DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// ---- Shared memory

FLA_DEVICE float load_f32(Smem a) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(a) : "memory");
  return v;
}
FLA_DEVICE std::uint32_t load_u32(Smem a) {
  std::uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory");
  return v;
}
FLA_DEVICE F2 load_f32x2(Smem a) {
  F2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(a) : "memory");
  return v;
}
FLA_DEVICE F4 load_f32x4(Smem a) {
  F4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(a)
               : "memory");
  return v;
}
FLA_DEVICE U2 load_u32x2(Smem a) {
  U2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(a) : "memory");
  return v;
}
FLA_DEVICE U4 load_u32x4(Smem a) {
  U4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(a)
               : "memory");
  return v;
}
FLA_DEVICE void store(Smem a, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(a), "f"(x) : "memory");
}
FLA_DEVICE void store(Smem a, std::uint32_t x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(a), "r"(x) : "memory");
}
FLA_DEVICE void store(Smem a, std::uint16_t x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(a), "h"(x) : "memory");
}
FLA_DEVICE void store(Smem a, U2 x) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(a), "r"(x.x), "r"(x.y) : "memory");
}
FLA_DEVICE void store(Smem a, F2 x) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(a), "f"(x.x), "f"(x.y) : "memory");
}
FLA_DEVICE void store(Smem a, U4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}
FLA_DEVICE void store(Smem a, F4 x) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(a), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
               : "memory");
}
/// Four 8 x 8 matrices of 16-bit elements; lane 8 m + r gives the address of row r of matrix m.
FLA_DEVICE void ldmatrix(std::uint32_t* r, Smem a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a)
               : "memory");
}
FLA_DEVICE void ldmatrix_trans(std::uint32_t* r, Smem a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a)
               : "memory");
}
FLA_DEVICE void stmatrix(Smem a, std::uint32_t r0, std::uint32_t r1, std::uint32_t r2, std::uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}
FLA_DEVICE void stmatrix_trans(Smem a, std::uint32_t r0, std::uint32_t r1, std::uint32_t r2,
                               std::uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
/// An 8 x 8 matrix of 16-bit elements, two of row lane / 4 in a register, transposed.
FLA_DEVICE std::uint32_t transposed(std::uint32_t x) {
  std::uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// ---- Numbers

FLA_DEVICE float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FLA_DEVICE float rcp(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FLA_DEVICE float rsqrt_of(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FLA_DEVICE float sqrt_of(float x) { return __fsqrt_rn(x); }
FLA_DEVICE float fma_of(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FLA_DEVICE float bits_f32(std::uint32_t x) { return __uint_as_float(x); }
FLA_DEVICE std::uint32_t f32_bits(float x) { return __float_as_uint(x); }
/// The larger one; of a number and NaN the number.
FLA_DEVICE float max_of(float a, float b) { return fmaxf(a, b); }
/// x *= y, in this place: the compiler does not put it off.
FLA_DEVICE void multiply_here(float& x, float y) { asm volatile("mul.f32 %0, %0, %1;" : "+f"(x) : "f"(y)); }
/// Two 16-bit numbers, the first one in the low half. f16 clamps to its largest finite value; NaN stays NaN.
FLA_DEVICE std::uint32_t pack_f16(float lo, float hi) {
  std::uint32_t r;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
FLA_DEVICE std::uint32_t pack_bf16(float lo, float hi) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
FLA_DEVICE F2 unpack_bf16(std::uint32_t x) {
  return {__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u)};
}
FLA_DEVICE F2 unpack_f16(std::uint32_t x) {
  const float2 v = __half22float2(*reinterpret_cast<const __half2*>(&x));
  return {v.x, v.y};
}
/// Both f16 halves times a power of two.
FLA_DEVICE std::uint32_t scale_f16(std::uint32_t x, float s) {
  const __half2 r = __hmul2(*reinterpret_cast<const __half2*>(&x), __float2half2_rn(s));
  return *reinterpret_cast<const std::uint32_t*>(&r);
}

/// Sets numbers to zero unless they are to be kept. The branch is in the PTX, so that ptxas leaves the
/// numbers in their registers; around a branch of C++ it copies them.
FLA_DEVICE void clear_unless(bool is_kept, std::uint32_t (&x)[16]) {
  asm volatile(
      "{\n.reg .pred stay;\nsetp.ne.u32 stay, %16, 0;\n@stay bra done;\n"
      "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; mov.b32 %4, 0; mov.b32 %5, 0; mov.b32 %6, "
      "0; mov.b32 %7, 0; mov.b32 %8, 0; mov.b32 %9, 0; mov.b32 %10, 0; mov.b32 %11, 0; mov.b32 %12, 0; "
      "mov.b32 %13, 0; mov.b32 %14, 0; mov.b32 %15, 0;\ndone:\n}"
      : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]),
        "+r"(x[8]), "+r"(x[9]), "+r"(x[10]), "+r"(x[11]), "+r"(x[12]), "+r"(x[13]), "+r"(x[14]), "+r"(x[15])
      : "r"(is_kept ? 1u : 0u));
}
FLA_DEVICE void clear_unless(bool is_kept, std::uint32_t (&x)[16], std::uint32_t (&y)[16]) {
  asm volatile(
      "{\n.reg .pred stay;\nsetp.ne.u32 stay, %32, 0;\n@stay bra done;\n"
      "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; mov.b32 %4, 0; mov.b32 %5, 0; mov.b32 %6, "
      "0; mov.b32 %7, 0; mov.b32 %8, 0; mov.b32 %9, 0; mov.b32 %10, 0; mov.b32 %11, 0; mov.b32 %12, 0; "
      "mov.b32 %13, 0; mov.b32 %14, 0; mov.b32 %15, 0; mov.b32 %16, 0; mov.b32 %17, 0; mov.b32 %18, 0; "
      "mov.b32 %19, 0; mov.b32 %20, 0; mov.b32 %21, 0; mov.b32 %22, 0; mov.b32 %23, 0; mov.b32 %24, 0; "
      "mov.b32 %25, 0; mov.b32 %26, 0; mov.b32 %27, 0; mov.b32 %28, 0; mov.b32 %29, 0; mov.b32 %30, 0; "
      "mov.b32 %31, 0;\ndone:\n}"
      : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]),
        "+r"(x[8]), "+r"(x[9]), "+r"(x[10]), "+r"(x[11]), "+r"(x[12]), "+r"(x[13]), "+r"(x[14]), "+r"(x[15]),
        "+r"(y[0]), "+r"(y[1]), "+r"(y[2]), "+r"(y[3]), "+r"(y[4]), "+r"(y[5]), "+r"(y[6]), "+r"(y[7]),
        "+r"(y[8]), "+r"(y[9]), "+r"(y[10]), "+r"(y[11]), "+r"(y[12]), "+r"(y[13]), "+r"(y[14]), "+r"(y[15])
      : "r"(is_kept ? 1u : 0u));
}

// ---- Tensor cores

enum class Half16 : std::uint8_t { bf16, f16 };

/// c (16 x 8) += a (16 x 16) b (16 x 8)
template <Half16 type>
FLA_DEVICE void mma(float (&c)[4], const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1) {
  if constexpr (type == Half16::f16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, "
        "%2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

FLA_DEVICE void wgmma_fence() { cute::warpgroup_arrive(); }
FLA_DEVICE void wgmma_commit() { cute::warpgroup_commit_batch(); }
template <int pending>
FLA_DEVICE void wgmma_wait() {
  cute::warpgroup_wait<pending>();
}
template <int count>
FLA_DEVICE void keep(float (&r)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(r[i])::"memory");
}
template <int count>
FLA_DEVICE void keep(std::uint32_t (&r)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(r[i])::"memory");
}

/// CuTe's atoms for (64 x n) += (64 x 16) (16 x n), A K-major; B K-major, or with `trans` MN-major.
template <int n, Half16 type, int trans>
constexpr auto wgmma_ss_atom() {
  using namespace cute::SM90::GMMA;
  constexpr Major B = trans ? Major::MN : Major::K;
  if constexpr (type == Half16::f16) {
    if constexpr (n == 32) return MMA_64x32x16_F32F16F16_SS<Major::K, B>{};
    if constexpr (n == 64) return MMA_64x64x16_F32F16F16_SS<Major::K, B>{};
    if constexpr (n == 128) return MMA_64x128x16_F32F16F16_SS<Major::K, B>{};
  } else {
    if constexpr (n == 32) return MMA_64x32x16_F32BF16BF16_SS<Major::K, B>{};
    if constexpr (n == 64) return MMA_64x64x16_F32BF16BF16_SS<Major::K, B>{};
    if constexpr (n == 128) return MMA_64x128x16_F32BF16BF16_SS<Major::K, B>{};
  }
}
template <int n, int sign, int trans>
constexpr auto wgmma_rs_atom() {
  using namespace cute::SM90::GMMA;
  constexpr Major B = trans ? Major::MN : Major::K;
  constexpr ScaleIn A = sign < 0 ? ScaleIn::Neg : ScaleIn::One;
  if constexpr (n == 64) return MMA_64x64x16_F32F16F16_RS<Major::K, B, A>{};
  if constexpr (n == 128) return MMA_64x128x16_F32F16F16_RS<Major::K, B, A>{};
}

/// d (64 x n) = [add] d + A B, k = 16. A by descriptor, K-major; B by descriptor, K-major or with `trans`
/// MN-major.
template <int n, Half16 type, int trans>
FLA_DEVICE void wgmma_ss(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int add) {
  using Atom = decltype(wgmma_ss_atom<n, type, trans>());
  [&]<int... i>(std::integer_sequence<int, i...>) {
    Atom::fma(a, b, d[i]..., static_cast<cute::SM90::GMMA::ScaleOut>(add));
  }
  (std::make_integer_sequence<int, n / 2>());
}
/// d (64 x n) = [add] d + sign A B, k = 16, f16. A in registers, B by descriptor as above.
template <int n, int sign, int trans>
FLA_DEVICE void wgmma_rs(float (&d)[n / 2], const std::uint32_t* a, std::uint64_t b, int add) {
  using Atom = decltype(wgmma_rs_atom<n, sign, trans>());
  [&]<int... i>(std::integer_sequence<int, i...>) {
    Atom::fma(a[0], a[1], a[2], a[3], b, d[i]..., static_cast<cute::SM90::GMMA::ScaleOut>(add));
  }
  (std::make_integer_sequence<int, n / 2>());
}

}  // namespace fla::flash_kda

#else
#include "emulated_ptx.h"
#endif
