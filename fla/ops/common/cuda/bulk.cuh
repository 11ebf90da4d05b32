#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "fla/ops/common/cuda/instructions.cuh"

/// Copies of whole tiles to shared memory, by one instruction each, from sm_90 on; tests/emulation has others
/// in their place. Warpgroups' products read what has arrived as it is. What threads wrote to a place before,
/// and products read since, needs no more than the barrier in between.
namespace fla::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool kHasBulkCopies = false;
#else
inline constexpr bool kHasBulkCopies = true;
#endif

/// Where a round of copies is waited for. One thread begins, once, and then a round: expect(all bytes of the
/// round), its copies. Any may wait for it, after a barrier behind begin(), and all have to before the next.
struct alignas(8) Arrival {
  std::uint64_t state;

  __device__ void begin() {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(this)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __device__ void expect(std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void wait(int round) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra again;\n"
        "}\n" ::"r"(shared_address(this)),
        "r"(round & 1)
        : "memory");
  }
};

/// A multiple of 16 bytes, from and to such an address.
__device__ inline void copy_bulk(void* to, const void* from, std::uint32_t bytes, Arrival& arrival) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&arrival))
      : "memory");
}

/// A barrier of a block's threads, which may come to it in different places.
template <int threads>
__device__ void meet() {
  asm volatile("barrier.sync 1, %0;" ::"n"(threads) : "memory");
}

}  // namespace fla::cuda
