#pragma once

#include <cmath>
#include <cstdint>

#include "backends/flash_kda/vectors.h"
#include "tests/emulation/instructions.h"
#include "tests/emulation/numbers.h"

/// What flash_kda's ptx.cuh gives to kernels, on the emulated device: the same names with the same contracts.

#define FLA_DEVICE inline
#define FLA_BOTH
/// Where the caller stands, as last parameter.
#define FLA_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace fla::flash_kda {

using emulation::Site;
using emulation::Smem;
using emulation::TensorMap;
enum class Barrier : std::uint32_t;  // of the kernels: barriers.cuh

// ---- threads

FLA_DEVICE std::uint32_t thread() { return emulation::thread_index(); }
FLA_DEVICE std::uint32_t block() { return emulation::block_index(); }
FLA_DEVICE std::uint32_t blocks() { return emulation::grid_size(); }
FLA_DEVICE std::uint32_t uniform(std::uint32_t x, FLA_SITE) {
  return emulation::from_first_lane(x, {file, line});
}
FLA_DEVICE std::uint32_t kept(std::uint32_t x) { return x; }
FLA_DEVICE void rarely() {}
FLA_DEVICE void warp_sync(FLA_SITE) { emulation::warp_sync({file, line}); }
FLA_DEVICE std::uint32_t processor() { return emulation::processor_index(); }
FLA_DEVICE bool elected() { return thread() % 32 == 0; }
FLA_DEVICE bool any(bool x, FLA_SITE) { return emulation::any(x, {file, line}); }
FLA_DEVICE float shuffle_xor(float x, int mask, FLA_SITE) {
  return emulation::shuffle_xor(x, mask, {file, line});
}
FLA_DEVICE std::int32_t shuffle(std::int32_t x, std::uint32_t from, FLA_SITE) {
  return emulation::shuffle(x, from, {file, line});
}
FLA_DEVICE std::uint32_t largest(std::uint32_t x, FLA_SITE) { return emulation::largest(x, {file, line}); }
FLA_DEVICE std::uint32_t bits_of_all(std::uint32_t x, FLA_SITE) {
  return emulation::bits_of_all(x, {file, line});
}
FLA_DEVICE void barrier(Barrier id, std::uint32_t threads, FLA_SITE) {
  emulation::barrier(static_cast<std::uint32_t>(id), threads, {file, line});
}
FLA_DEVICE void barrier_arrive(Barrier id, std::uint32_t threads, FLA_SITE) {
  emulation::barrier_arrive(static_cast<std::uint32_t>(id), threads, {file, line});
}
template <int count>
FLA_DEVICE void registers_down() {}
template <int count>
FLA_DEVICE void registers_up() {}
FLA_DEVICE std::uint32_t clock_now() { return 0; }

// ---- kernels in a row

FLA_DEVICE void wait_for_kernel_before(FLA_SITE) { emulation::wait_for_kernel_before({file, line}); }
FLA_DEVICE void let_next_kernel_come() { emulation::let_next_kernel_come(); }

// ---- between CTAs, through global memory

FLA_DEVICE std::uint32_t load_acquire(const std::uint32_t* at, FLA_SITE) {
  return emulation::load_acquire(at, {file, line});
}
FLA_DEVICE void store_release(std::uint32_t* at, std::uint32_t x, FLA_SITE) {
  emulation::store_release(at, x, {file, line});
}
FLA_DEVICE std::uint32_t fetch_add(std::uint32_t* at, std::uint32_t x) { return emulation::fetch_add(at, x); }

// ---- mbarriers

FLA_DEVICE void mbar_init(Smem bar, std::uint32_t arrivals, FLA_SITE) {
  emulation::mbar_init(bar, arrivals, {file, line});
}
FLA_DEVICE void mbar_init_fence(FLA_SITE) { emulation::fence_async({file, line}); }
FLA_DEVICE void mbar_arrive(Smem bar, FLA_SITE) { emulation::mbar_arrive(bar, {file, line}); }
FLA_DEVICE void mbar_arrive(Smem bar, std::uint32_t count, FLA_SITE) {
  for (std::uint32_t i = 0; i < count; ++i) emulation::mbar_arrive(bar, {file, line});
}
FLA_DEVICE void mbar_expect(Smem bar, std::uint32_t bytes, FLA_SITE) {
  emulation::mbar_expect(bar, bytes, {file, line});
}
FLA_DEVICE bool mbar_try(Smem bar, std::uint32_t parity, FLA_SITE) {
  return emulation::mbar_try(bar, parity, {file, line});
}
/// Nobody loses patience here: who waits for ever is reported.
struct Patience {
  void begin() {}
  bool out() { return false; }
};
FLA_DEVICE void mbar_wait(Smem bar, std::uint32_t parity, Patience&, FLA_SITE) {
  emulation::mbar_wait(bar, parity, {file, line});
}
FLA_DEVICE void wait_at_least(const std::uint32_t* at, std::uint32_t value, Patience&, FLA_SITE) {
  emulation::wait_at_least(at, value, {file, line});
}

// ---- counters in shared memory

FLA_DEVICE void store_release_shared(Smem at, std::uint32_t x, FLA_SITE) {
  emulation::store_release_shared(at, x, {file, line});
}
FLA_DEVICE std::uint32_t wait_shared_at_least(Smem at, std::uint32_t value, Patience&, FLA_SITE) {
  return emulation::wait_shared_at_least(at, value, {file, line});
}

// ---- copies

FLA_DEVICE void fence_async_shared(FLA_SITE) { emulation::fence_async({file, line}); }
FLA_DEVICE void fence_async_global() {}  // plain accesses of global memory are not watched
FLA_DEVICE void prefetch(const TensorMap*) {}
FLA_DEVICE void tma_load(Smem to, const TensorMap* map, Smem bar, int c, int h, int t, int b, FLA_SITE) {
  const int at[] = {c, h, t, b};
  emulation::tma_load(to, *map, bar, at, 4, {file, line});
}
FLA_DEVICE void tma_store(const TensorMap* map, Smem from, int c, int h, int t, int b, FLA_SITE) {
  const int at[] = {c, h, t, b};
  emulation::tma_store(*map, from, at, 4, {file, line});
}
FLA_DEVICE void bulk_load(Smem to, const void* from, std::uint32_t bytes, Smem bar, FLA_SITE) {
  emulation::bulk_load(to, from, bytes, bar, {file, line});
}
FLA_DEVICE void bulk_store(void* to, Smem from, std::uint32_t bytes, FLA_SITE) {
  emulation::bulk_store(to, from, bytes, {file, line});
}
FLA_DEVICE void bulk_commit(FLA_SITE) { emulation::bulk_commit({file, line}); }
FLA_DEVICE void bulk_wait_read(FLA_SITE) { emulation::bulk_wait_read(0, {file, line}); }
FLA_DEVICE void bulk_wait(FLA_SITE) { emulation::bulk_wait(0, {file, line}); }

// ---- shared memory

template <class T>
FLA_DEVICE T load_shared(Smem a, Site site) {
  T x;
  emulation::load(&x, a, sizeof x, site);
  return x;
}
FLA_DEVICE float load_f32(Smem a, FLA_SITE) { return load_shared<float>(a, {file, line}); }
FLA_DEVICE std::uint32_t load_u32(Smem a, FLA_SITE) { return load_shared<std::uint32_t>(a, {file, line}); }
FLA_DEVICE F2 load_f32x2(Smem a, FLA_SITE) { return load_shared<F2>(a, {file, line}); }
FLA_DEVICE F4 load_f32x4(Smem a, FLA_SITE) { return load_shared<F4>(a, {file, line}); }
FLA_DEVICE U2 load_u32x2(Smem a, FLA_SITE) { return load_shared<U2>(a, {file, line}); }
FLA_DEVICE U4 load_u32x4(Smem a, FLA_SITE) { return load_shared<U4>(a, {file, line}); }
FLA_DEVICE void store(Smem a, float x, FLA_SITE) { emulation::store(a, &x, sizeof x, {file, line}); }
FLA_DEVICE void store(Smem a, std::uint32_t x, FLA_SITE) { emulation::store(a, &x, sizeof x, {file, line}); }
FLA_DEVICE void store(Smem a, std::uint16_t x, FLA_SITE) { emulation::store(a, &x, sizeof x, {file, line}); }
FLA_DEVICE void store(Smem a, F2 x, FLA_SITE) { emulation::store(a, &x, sizeof x, {file, line}); }
FLA_DEVICE void store(Smem a, U2 x, FLA_SITE) { emulation::store(a, &x, sizeof x, {file, line}); }
FLA_DEVICE void store(Smem a, U4 x, FLA_SITE) { emulation::store(a, &x, sizeof x, {file, line}); }
FLA_DEVICE void store(Smem a, F4 x, FLA_SITE) { emulation::store(a, &x, sizeof x, {file, line}); }
FLA_DEVICE void ldmatrix(std::uint32_t* r, Smem a, FLA_SITE) {
  emulation::ldmatrix(r, a, false, {file, line});
}
FLA_DEVICE void ldmatrix_trans(std::uint32_t* r, Smem a, FLA_SITE) {
  emulation::ldmatrix(r, a, true, {file, line});
}
FLA_DEVICE void stmatrix(Smem a, std::uint32_t r0, std::uint32_t r1, std::uint32_t r2, std::uint32_t r3,
                         FLA_SITE) {
  const std::uint32_t r[] = {r0, r1, r2, r3};
  emulation::stmatrix(a, r, false, {file, line});
}
FLA_DEVICE void stmatrix_trans(Smem a, std::uint32_t r0, std::uint32_t r1, std::uint32_t r2, std::uint32_t r3,
                               FLA_SITE) {
  const std::uint32_t r[] = {r0, r1, r2, r3};
  emulation::stmatrix(a, r, true, {file, line});
}
FLA_DEVICE std::uint32_t transposed(std::uint32_t x, FLA_SITE) {
  return emulation::transposed(x, {file, line});
}

// ---- numbers

using emulation::ex2;
using emulation::pack_bf16;
using emulation::pack_f16;
using emulation::rcp;
using emulation::scale_f16;
FLA_DEVICE void clear_unless(bool is_kept, std::uint32_t (&x)[16]) {
  for (std::uint32_t& number : x) number = is_kept ? number : 0;
}
FLA_DEVICE void clear_unless(bool is_kept, std::uint32_t (&x)[16], std::uint32_t (&y)[16]) {
  clear_unless(is_kept, x);
  clear_unless(is_kept, y);
}
FLA_DEVICE float rsqrt_of(float x) { return emulation::rsqrt(x); }
FLA_DEVICE float sqrt_of(float x) { return std::sqrt(x); }
FLA_DEVICE float max_of(float a, float b) { return std::fmax(a, b); }
FLA_DEVICE void multiply_here(float& x, float y) { x *= y; }
FLA_DEVICE float fma_of(float a, float b, float c) { return std::fma(a, b, c); }
FLA_DEVICE float bits_f32(std::uint32_t x) { return std::bit_cast<float>(x); }
FLA_DEVICE std::uint32_t f32_bits(float x) { return std::bit_cast<std::uint32_t>(x); }
FLA_DEVICE F2 unpack_bf16(std::uint32_t x) {
  return {to_float(bf16{emulation::half_of(x, 0)}), to_float(bf16{emulation::half_of(x, 1)})};
}
FLA_DEVICE F2 unpack_f16(std::uint32_t x) {
  return {to_float(f16{emulation::half_of(x, 0)}), to_float(f16{emulation::half_of(x, 1)})};
}

// ---- tensor cores

enum class Half16 : std::uint8_t { bf16, f16 };
constexpr emulation::Format format_of(Half16 type) {
  return type == Half16::bf16 ? emulation::Format::bf16 : emulation::Format::f16;
}

template <Half16 type>
FLA_DEVICE void mma(float (&c)[4], const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1, FLA_SITE) {
  emulation::mma(c, a, b0, b1, format_of(type), {file, line});
}
FLA_DEVICE void wgmma_fence(FLA_SITE) { emulation::wgmma_fence({file, line}); }
FLA_DEVICE void wgmma_commit(FLA_SITE) { emulation::wgmma_commit({file, line}); }
template <int pending>
FLA_DEVICE void wgmma_wait(FLA_SITE) {
  emulation::wgmma_wait(pending, {file, line});
}
template <class T, int count>
FLA_DEVICE void keep(T (&)[count]) {}
template <int n, Half16 type, int trans>
FLA_DEVICE void wgmma_ss(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int add, FLA_SITE) {
  emulation::wgmma(
      {.n = n, .format = format_of(type), .add = add != 0, .b_mn_major = trans != 0, .a = a, .b = b, .d = d},
      {file, line});
}
template <int n, int sign, int trans>
FLA_DEVICE void wgmma_rs(float (&d)[n / 2], const std::uint32_t* a, std::uint64_t b, int add, FLA_SITE) {
  emulation::wgmma(
      {.n = n, .sign = sign, .add = add != 0, .b_mn_major = trans != 0, .a_registers = a, .b = b, .d = d},
      {file, line});
}

}  // namespace fla::flash_kda

#undef FLA_SITE
