#pragma once

#include "backends/flash_kda/prep/role_ahead.cuh"
#include "backends/flash_kda/prep/role_carry.cuh"
#include "backends/flash_kda/prep/role_fold.cuh"
#include "backends/flash_kda/prep/role_pair.cuh"
#include "backends/flash_kda/prep/role_scale.cuh"

/// Prep: the operators of a chunk of one head, as a packet. Notation: layout.cuh, with q times 16 scale, so
/// that Q~, Q^ and M are times 16.
///
/// A *task* is one chunk of one item (params.h). A CTA of 20 warps goes from one to the next, in two places
/// of shared memory in turn (prep/shared.cuh): while warps 8 to 15 fold task n in one place, warps 0 to 7
/// scale task n + 1 in the other, and the inputs of n + 2 come as soon as there is room. Four warps wait for
/// memory as long as it takes: 16 and 17 carry packets away, one a place; 18 finds task n + 3, and 19 brings
/// what TMA does not of n + 2. Who waits for whom: barriers.cuh.
///
/// In prep/: shared and votes; a file a step: inputs (1), measure (2), odd (2 again), copies (3), exact (3
/// and 4), pairs (4), solve (5), fold (6); and the roles, which call them: role_ahead (1), role_scale,
/// role_fold, role_carry (7). The additive rule has no steps 5 and 6: its M goes into the packet at once
/// (role_pair).
///
///   step         who                                       from -> to (shared memory unless said)
///   1  loads     threads of the folding warps: TMA         g -> g; of blocks of 32 tokens
///                                                          [q0; k0] -> rows0, [k1; q1] -> rows1
///      ahead     warps 18 and 19                           where n + 3 is -> record; beta, and gate
///                                                          parameters or logarithms -> beta, …
///   scale: warps 0 to 7
///   2  gates     warp: 8 tokens, lane: 4 channels          g -> a (registers); products over the 8 -> run
///      norms     warp: 16 tokens of q or of k, by mma      rows -> diagonal of X X^T -> factor
///      ------------ barrier; how, by vote: gentle where no run of 8 decays by more than 2^-2, exact where
///                   one does by more than 2^-59, or else steep
///   3  copies    as gates; scales: running products of a   rows -> in place q, k D(mid -> i), steep in bf16
///                                                          for the range, gentle in f16: the errors of
///                                                          slow gates add up
///                mid: after 16 tokens of a block           k D(i -> mid_1) -> columns1;
///                                                          k D(i -> mid_0) -> columns0, of block 0;
///                                                          Q~, K~, Kr (f16) -> packet
///   fold: warps 8 to 15, warpgroups F0 and F1
///   4  pairs     F0: [q0; k0] x k of block 0               rows0, columns0 -> wgmma -> registers
///                F1: [k1; q1] x k of both blocks           rows1, columns1 -> wgmma -> registers
///      ------------ barrier
///   5  solve     four warps, 16 rows of L each             -L (f16) -> l; its 8 x 8 (f32) -> diagonal
///                T of its 16 x 16: a lane a column of      -> T^T (f16) -> tt; T2^T (f16) -> t2t
///                8 x 8, then one merge by mma
///                then the 16 columns below, block by       l, tt -> T2^T -> t2t
///                block, by mma
///      M         the other four, masked                    M (f16) -> m -> registers of F1
///                then a thread: g of n + 2
///      ------------ barrier: rows0 and rows1 are free
///   6  folds     F0: K^r = T2^T Kr                         packet, t2t -> wgmma -> packet.kr
///                F1: B = M T2, then Q^ = Q~ - B K~         packet, t2t -> wgmma -> packet.b, packet.qh
///      F0        a thread a warp: q, k of n + 2
///      ------------ barrier
///   carry: warp 16
///   7  out       a thread: when there is room, bulk        packet -> memory or L2
///                copies; when they have read the packet,
///                its place is free; when they are there,
///                others may read it
///
///   odd: step 2 again, by the scaling warps, for magnitudes out of the ordinary (range.cuh).
///   raw pairs, of a gate a token: instead of 3, Q~, K~ and Kr alone; 4 multiplies queries and keys as they
///   came, and their products are scaled behind it.
///   exact: instead of 3 and 4, by the scaling warps, D(j -> i) by running products down the rows, all in
///   f32; about five times the time.
///   Heads of 64 channels: TMA brings zeros for the others, and nothing decays there.
namespace fla::flash_kda {

/// All of prep: a CTA of 640 threads takes tasks `worker`, worker + workers, … or, beside the state, the next
/// one that nobody has.
template <Half16 type, GateKind kind, Rule rule>
FLA_DEVICE void prep(const Params& p, Smem smem, std::uint32_t tid, std::int32_t worker,
                     std::int32_t workers) {
  if (tid == 0) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const Smem at = smem + i * Prep::bytes;
      mbar_init(at + Prep::bar_g, 1 + 32);  // who asks for g; a warp's lanes
      mbar_init(at + Prep::bar_qk, 4);
      mbar_init(at + Prep::bar_left, 1);
    }
    mbar_init_fence();
  }
  // Copied whether it is used or not.
  if (tid < (Packet::end - Packet::odd) / 16) {
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i)
      store(smem + i * Prep::bytes + Packet::odd + 16 * tid, U4{0, 0, 0, 0});
  }
  // Read before it is known whether anything came.
  if (tid < 2 * Prep::threads) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i)
      store(smem + (i >> 1) * Prep::bytes + Prep::g + (i & 1) * kTile + 16 * tid, U4{0, 0, 0, 0});
  }
  const std::uint32_t warp = uniform(tid >> 5), lane = kept(tid & 31);
  if (warp == 18)
    Inputs<kind, rule>{p, static_cast<std::uint32_t>(tasks_of(p.schedule)), lane}.begin(smem, worker,
                                                                                        workers);
  fence_async_shared();
  barrier(Barrier::cta, 2 * Prep::threads + 128);
  constexpr bool is_raw = has_raw_pairs(kind);
  if (warp < 8) {
    registers_up<is_raw ? 104 : 112>();
    if constexpr (kind == GateKind::channel && rule == Rule::delta) {
      if (p.call.gate == Gate::bounded)
        prep_scale<type, kind, rule, Gate::bounded>(p, smem, tid, worker);
      else if (p.call.gate == Gate::softplus)
        prep_scale<type, kind, rule, Gate::softplus>(p, smem, tid, worker);
      else
        prep_scale<type, kind, rule, Gate::given>(p, smem, tid, worker);
    } else {
      prep_scale<type, kind, rule, Gate::given>(p, smem, tid, worker);
    }
  } else if (warp < 16) {
    registers_up<112>();
    if constexpr (rule == Rule::delta)
      prep_fold<type, kind>(p, smem, warp - 8, lane, worker);
    else
      prep_pair<type, kind>(p, smem, warp - 8, lane, worker);
  } else {
    registers_down<is_raw ? 48 : 32>();
    if (warp < 18)
      prep_carry<rule>(p, smem + (warp & 1) * Prep::bytes, warp & 1, lane);
    else
      prep_ahead<kind, rule>(p, smem, warp == 18, lane, worker, workers);
  }
}

}  // namespace fla::flash_kda
