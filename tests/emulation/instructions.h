#pragma once

#include <cstdint>

#include "tests/emulation/findings.h"
#include "tests/emulation/tensor_map.h"

/// The instructions of the device, for the thread that runs. Addresses of shared memory are those of the
/// block's window; `site` is where the instruction stands in the kernel. ptx/emulated_ptx.h gives them the
/// names that kernels use.
namespace fla::emulation {

using Smem = std::uint32_t;

// ---- threads

std::uint32_t thread_index();
std::uint32_t block_index();
std::uint32_t processor_index();
std::uint32_t grid_size();
void warp_sync(Site site);
bool any(bool x, Site site);
/// The largest x of the warp's lanes.
std::uint32_t largest(std::uint32_t x, Site site);
/// The bits that any of the warp's lanes has.
std::uint32_t bits_of_all(std::uint32_t x, Site site);
float shuffle_xor(float x, int mask, Site site);
std::int32_t shuffle(std::int32_t x, std::uint32_t from, Site site);
std::uint32_t from_first_lane(std::uint32_t x, Site site);
void barrier(std::uint32_t id, std::uint32_t threads, Site site);
/// Arrives and goes on.
void barrier_arrive(std::uint32_t id, std::uint32_t threads, Site site);
void wait_for_kernel_before(Site site);
void let_next_kernel_come();

// ---- flags in global memory

std::uint32_t load_acquire(const std::uint32_t* at, Site site);
void store_release(std::uint32_t* at, std::uint32_t x, Site site);
std::uint32_t fetch_add(std::uint32_t* at, std::uint32_t x);
void wait_at_least(const std::uint32_t* at, std::uint32_t value, Site site);

// ---- mbarriers

void mbar_init(Smem bar, std::uint32_t arrivals, Site site);
void mbar_arrive(Smem bar, Site site);
void mbar_expect(Smem bar, std::uint32_t bytes, Site site);
bool mbar_try(Smem bar, std::uint32_t parity, Site site);
void mbar_wait(Smem bar, std::uint32_t parity, Site site);

// ---- counters in shared memory

void store_release_shared(Smem at, std::uint32_t x, Site site);
/// What it is then.
std::uint32_t wait_shared_at_least(Smem at, std::uint32_t value, Site site);

// ---- copies

/// What the thread wrote to shared memory is there for copies and wgmma.
void fence_async(Site site);
void tma_load(Smem to, const TensorMap& map, Smem bar, const int* coordinates, int rank, Site site);
void tma_store(const TensorMap& map, Smem from, const int* coordinates, int rank, Site site);
void bulk_load(Smem to, const void* from, std::uint32_t bytes, Smem bar, Site site);
void bulk_store(void* to, Smem from, std::uint32_t bytes, Site site);
void bulk_commit(Site site);
/// Until at most `pending` groups have still to read their sources, or to write.
void bulk_wait_read(std::uint32_t pending, Site site);
void bulk_wait(std::uint32_t pending, Site site);

// ---- shared memory

void load(void* to, Smem from, std::uint32_t bytes, Site site);
void store(Smem to, const void* from, std::uint32_t bytes, Site site);
void ldmatrix(std::uint32_t* r, Smem row, bool transposed, Site site);
void stmatrix(Smem row, const std::uint32_t* r, bool transposed, Site site);
std::uint32_t transposed(std::uint32_t x, Site site);

// ---- tensor cores

enum class Format : std::uint8_t { bf16, f16 };
void mma(float* c, const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1, Format format, Site site);

/// d (64 x n) = [add] d + sign A B, k = 16.
struct Wgmma {
  int n = 0;
  Format format = Format::f16;
  float sign = 1;
  bool add = false;
  bool b_mn_major = false;
  const std::uint32_t* a_registers = nullptr;  ///< null: A by descriptor, K-major
  std::uint64_t a = 0, b = 0;                  ///< descriptors
  float* d = nullptr;                          ///< n / 2 registers of the thread
};
void wgmma(const Wgmma& product, Site site);
void wgmma_fence(Site site);
void wgmma_commit(Site site);
void wgmma_wait(std::uint32_t pending, Site site);

}  // namespace fla::emulation
