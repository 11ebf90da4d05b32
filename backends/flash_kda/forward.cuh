#pragma once

#include "backends/flash_kda/state.cuh"

/// The kernel of a forward pass: CTAs of 512 threads, one an SM. The first `state_blocks` run the chains of
/// states, one a stream (state.cuh); each of the others prepares packets (prep.cuh). Launched with both kinds
/// at once, packets pass through L2; with one kind after the other, through memory.
///
///   registers, of 512 a lane's place: prep 4 x 128; state 32 + 224 + 224 + 32
namespace fla::flash_kda {

inline constexpr std::uint32_t kThreads = 2 * Prep::threads;
inline constexpr std::uint32_t kSharedBytes =
    (State::bytes > 2 * Prep::bytes ? State::bytes : 2 * Prep::bytes) + 1024;

template <Half16 type>
FLA_DEVICE void forward(const Params& p, Smem smem) {
  const std::uint32_t tid = thread(), warp = uniform(tid >> 5), wg = warp >> 2;
  let_next_kernel_come();
  if (block() < std::uint32_t(p.state_blocks)) {
    if (tid == 0) {
      for (std::uint32_t i = 0; i < State::firsts; ++i) {
        mbar_init(smem + State::first_full + 8 * i, 1);
        mbar_init(smem + State::first_empty + 8 * i, 8);
      }
      for (int i = 0; i < 2; ++i) {
        mbar_init(smem + State::rest_full + 8 * i, 1);
        mbar_init(smem + State::rest_empty + 8 * i, 8);
        mbar_init(smem + State::o_full + 8 * i, 8);
        mbar_init(smem + State::o_empty + 8 * i, 1);
      }
      mbar_init(smem + State::left, 8);
      store(smem + State::seen, U2{0, 0});
      mbar_init_fence();
      prefetch(&p.v);
      prefetch(&p.o);
      if (p.first_by_tma) prefetch(&p.first_state);
      if (p.last_by_tma) prefetch(&p.last_state);
    }
    barrier(9, kThreads);
    wait_for_kernel_before();
    if (wg == 1 || wg == 2) {
      registers_up<224>();
      state_chain<type>(p, smem, block(), wg - 1, warp & 3, tid & 31);
    } else if (wg == 0) {
      registers_down<32>();
      if ((tid & 31) == 0) {
        if (warp == 0) state_loads_first(p, smem, block());
        if (warp == 3) state_loads_rest(p, smem, block());
        if (warp == 1 && p.schedule.ready) state_looks(p, smem, block());
        if (warp == 2 && p.schedule.taken) state_tells(p, smem, block());
      }
    } else {
      registers_down<32>();
      if (warp == 12) state_stores(p, smem, block(), tid & 31);
      if (warp == 13 && (tid & 31) == 0 && p.last_by_tma) state_leaves(p, smem, block());
    }
  } else {
    prep<type>(p, smem, tid, block() - p.state_blocks, blocks() - p.state_blocks);
  }
}

#ifdef __CUDACC__
template <Half16 type>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(const __grid_constant__ Params p) {
  extern __shared__ std::uint8_t shared[];
  const Smem smem = (static_cast<Smem>(__cvta_generic_to_shared(shared)) + 1023) & ~1023u;
  forward<type>(p, smem);
}
#endif

}  // namespace fla::flash_kda
