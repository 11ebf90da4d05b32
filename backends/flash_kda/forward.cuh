#pragma once

#include "backends/flash_kda/state.cuh"

/// The kernel of a forward pass: CTAs of 640 threads, one an SM. The role of `state_blocks` of them is state,
/// one a stream or, split, one a half of V (state.cuh), that of the others prep (prep.cuh). Launched with
/// both roles at once, packets pass through L2; with one role after the other, through memory.
///
///   registers of the five warpgroups, of 480 that were given at launch:
///   prep 112 + 112 + 112 + 112 + 32 or, with raw pairs, 104 + 104 + 112 + 112 + 48; state 32 + 200 + 200 +
///   24 + 24 or, where the rule is additive, 32 + 192 + 192 + 32 + 32
namespace fla::flash_kda {

inline constexpr std::uint32_t kThreads = 2 * Prep::threads + 128;
inline constexpr std::uint32_t kRoleAt = 2 * Prep::bytes;  ///< u32: the CTA's role
inline constexpr std::uint32_t kSharedBytes = kRoleAt + 16 + 1024;
static_assert(Stages<Rule::delta>::bytes <= kRoleAt && Stages<Rule::additive>::bytes <= kRoleAt &&
              kSharedBytes <= 232448);

/// A CTA's role is a number: below state_blocks a stream or a half of one, otherwise a worker of prep. Where
/// both roles run at once, it follows the SM: below state_blocks it is state, otherwise prep. The two SMs of
/// a pair then have the same role but for one pair: they share a cache of instructions that has not room for
/// the code of both, and each pair with two roles slows all streams down (README.md). Which CTA runs on which
/// SM changes from launch to launch, and only the CTA knows. Should SMs be numbered otherwise than 0, 1, …, a
/// CTA takes what is left of the other role.
FLA_DEVICE void take_role(const Params& p, Smem smem) {
  const std::uint32_t states = p.state_blocks;
  std::uint32_t role = block();
  if (thread() == 0) {
    if (p.schedule.parts) {
      const auto take = [&](bool prepares) {
        return fetch_add(p.schedule.parts + (prepares ? kPartsApart : 0), 1) + (prepares ? states : 0);
      };
      const bool prepares = processor() >= states;
      role = take(prepares);
      if (role >= (prepares ? blocks() : states)) role = take(!prepares);
    }
    store(smem + kRoleAt, role);
  }
  barrier(Barrier::cta, kThreads);
}
FLA_DEVICE std::uint32_t role_of(Smem smem) { return load_u32(smem + kRoleAt); }

template <Half16 type, GateKind kind, Rule rule>
FLA_DEVICE void forward(const Params& p, Smem smem) {
  using State = Stages<rule>;
  // Which warpgroup's spare warps store O. It makes no difference to the time, but ptxas finds registers for
  // the products of one kernel with the one and of another with the other.
  constexpr bool stores_beside_loads =
      rule == Rule::additive || kind == GateKind::token || type == Half16::f16;
  const std::uint32_t tid = thread(), warp = uniform(tid >> 5), wg = warp >> 2;
  let_next_kernel_come();
  if (tid == 32) {  // while a role is taken, whichever it is
    for (const TensorMap* map : {&p.g, &p.q, &p.k, &p.v, &p.o}) prefetch(map);
    if (p.first_by_tma) prefetch(&p.first_state);
    if (p.last_by_tma) prefetch(&p.last_state);
  }
  wait_for_kernel_before();
  take_role(p, smem);
  if (uniform(role_of(smem)) < std::uint32_t(p.state_blocks)) {
    if (tid == 0) {
      const std::uint32_t threads = chains_of(p);
      for (std::uint32_t i = 0; i < State::firsts; ++i) {
        mbar_init(smem + State::first_full + 8 * i, 1);
        mbar_init(smem + State::first_empty + 8 * i, threads);  // all lanes of the chain
      }
      for (std::uint32_t i = 0; i < State::rests; ++i) {
        mbar_init(smem + State::rest_full + 8 * i, 1);
        mbar_init(smem + State::rest_empty + 8 * i, threads);
        mbar_init(smem + State::left + 8 * i, threads / 32);
      }
      for (std::uint32_t i = 0; i < 2; ++i) {
        mbar_init(smem + State::o_full + 8 * i, 4);
        mbar_init(smem + State::o_empty + 8 * i, 1);
      }
      store(smem + State::seen, U2{0, 0});
      mbar_init_fence();
    }
    barrier(Barrier::cta, kThreads);
    if (wg == 1 || wg == 2) {
      registers_up<rule == Rule::delta ? 200 : 192>();
      if (has_half(p, role_of(smem), wg - 1))
        state_chain<type, kind, rule>(p, smem, uniform(role_of(smem)), wg - 1, warp & 3, tid & 31);
    } else if (wg == 0) {
      registers_down<32>();
      // As a number of its own, `warp` would go through memory in the additive kernels.
      const std::uint32_t own = rule == Rule::delta ? warp : tid >> 5;
      if constexpr (stores_beside_loads) {
        const std::int32_t role = uniform(role_of(smem));
        if ((tid & 31) == 0) {
          if (own == 0) state_loads_first<rule>(p, smem, role);
          if (own == 3) state_loads_rest<rule>(p, smem, role);
        }
        if (own == 1 && has_half(p, role, 0)) state_stores<rule, 0>(p, smem, role, tid & 31);
        if (own == 2 && has_half(p, role, 1)) state_stores<rule, 1>(p, smem, role, tid & 31);
      } else if ((tid & 31) == 0) {
        if (own == 0) state_loads_first<rule>(p, smem, role_of(smem));
        if (own == 3) state_loads_rest<rule>(p, smem, role_of(smem));
        if (own == 1 && p.schedule.ready) state_looks<rule>(p, smem, role_of(smem));
        if (own == 2 && p.schedule.taken) state_tells<rule>(p, smem, role_of(smem));
      }
    } else {
      registers_down<rule == Rule::delta ? 24 : 32>();
      if constexpr (stores_beside_loads) {
        if ((tid & 31) == 0) {
          if (warp == 12 && p.schedule.ready) state_looks<rule>(p, smem, role_of(smem));
          if (warp == 13 && p.schedule.taken) state_tells<rule>(p, smem, role_of(smem));
          if (warp == 14 && p.last_by_tma) state_leaves<rule>(p, smem, role_of(smem));
        }
      } else {
        const std::int32_t role = uniform(role_of(smem));
        if (warp == 12 && has_half(p, role, 0)) state_stores<rule, 0>(p, smem, role, tid & 31);
        if (warp == 13 && has_half(p, role, 1)) state_stores<rule, 1>(p, smem, role, tid & 31);
        if (warp == 14 && (tid & 31) == 0 && p.last_by_tma) state_leaves<rule>(p, smem, role);
      }
    }
  } else {
    prep<type, kind, rule>(p, smem, tid, uniform(role_of(smem)) - p.state_blocks, blocks() - p.state_blocks);
  }
  warp_sync();
  barrier(Barrier::cta, kThreads);  // nobody leaves while others wait for each other
}

#ifdef __CUDACC__
template <Half16 type, GateKind kind, Rule rule>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(const __grid_constant__ Params p) {
  extern __shared__ std::uint8_t shared[];
  const Smem smem = (static_cast<Smem>(__cvta_generic_to_shared(shared)) + 1023) & ~1023u;
  forward<type, kind, rule>(p, smem);
}
#endif

}  // namespace fla::flash_kda
