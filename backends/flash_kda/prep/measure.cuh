#pragma once

#include "backends/flash_kda/gates.cuh"
#include "backends/flash_kda/prep/votes.cuh"
#include "backends/flash_kda/probe.cuh"

/// Step 2: gates to decays, norms of q and k, and the warps' votes.
namespace fla::flash_kda {

/// Tokens of a warp's eight whose gates come before q and k do.
inline constexpr int kEarly = 6;

/// What a thread of the scaling warps needs for it.
template <Half16 type, GateKind kind, Rule rule, Gate gate>
struct Measure {
  const Params& p;
  std::uint32_t warp, lane, wg, w4;
  const std::uint32_t& n;  ///< the task's number in the CTA
  float (&a)[8][4];        ///< decays of 8 tokens x 4 channels; not with raw pairs
  Patience& patience;
  Probe& probe;

  /// Of task n in the place `at`. first_of(lane): the thread's channels of its first token. False: there are
  /// no more tasks.
  template <class First>
  FLA_DEVICE bool operator()(Smem at, std::uint32_t turn, First&& first_of) const {
    const RecurrenceCall& call = p.call;
    mbar_wait(at + Prep::bar_g, turn, patience);
    warp_sync();
    probe.mark(0);
    const Smem x0 = first_of(lane);
    // Everything is asked for before anything is looked at.
    const Source from = source_in(record_of(at, turn));
    constexpr bool is_raw = has_raw_pairs(kind);
    Gates gates{};
    U2 raw[8];
    if constexpr (!is_raw) {
      const F2 slope_rate = load_f32x2(at + Prep::gate_slope);
      gates = {slope_rate.x, slope_rate.y, load_f32x4(at + Prep::gate_offset + Prep::lane * kept(lane))};
#pragma unroll
      for (int j = 0; j < 8; ++j) raw[j] = load_u32x2(row_of(x0, j) + Prep::g);
    }
    const std::uint32_t rows = from.rows;
    if (rows == 0) return false;

    // Gates and norms: the norms' matrix products fill time that the gates' functions take.
    if constexpr (!is_raw) {
#pragma unroll
      for (int j = 0; j < 8; ++j) unpack4<type>(raw[j], a[j]);
    }
    if (!is_raw && p.gate_f32) {
      const float* const g = static_cast<const float*>(call.g.data) + from.batch * call.g.batch +
                             (std::int64_t(from.token) + 8 * warp) * call.g.token + from.head * call.g.head +
                             4 * lane;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const F4 x = 8 * warp + j < rows && 4 * lane < std::uint32_t(call.K)
                         ? *reinterpret_cast<const F4*>(g + j * call.g.token)
                         : F4{0, 0, 0, 0};
        a[j][0] = x.x, a[j][1] = x.y, a[j][2] = x.z, a[j][3] = x.w;
      }
    }
    probe.mark(1);
    if constexpr (!is_raw) decays<gate, 0, kEarly>(gates, a, [](int) {});
    probe.mark(2);
    mbar_wait(at + Prep::bar_qk, turn, patience);
    warp_sync();
    probe.mark(3);
    if (rows < kChunk) {  // rows of whatever comes after the sequence, NaN perhaps
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (8 * warp + j >= rows) {
          store(row_of(x0, j) + q_rows(wg), U2{0, 0});
          store(row_of(x0, j) + k_rows(wg), U2{0, 0});
        }
      barrier(Barrier::scaling, Prep::threads);
    }
    float lo[4] = {0, 0, 0, 0}, hi[4] = {0, 0, 0, 0};
    // And of Q K^T, by warps 0-3: of bf16 pairs the diagonal of M has most of the error.
    constexpr bool of_pairs = type == Half16::f16 && !is_raw;
    float lo_dots[4] = {0, 0, 0, 0}, hi_dots[4] = {0, 0, 0, 0};
    {
      // the diagonal of X X^T; warps 0-3: 16 tokens of q each, warps 4-7: of k
      const std::uint32_t block = w4 >> 1;
      const Smem rows_of_block = at + Prep::rows0 + block * (Prep::rows1 - Prep::rows0);
      const Smem x = fragment_a(rows_of_block, 32 * (wg ^ block) + 16 * (w4 & 1), kept(lane));
      constexpr int late = 8 - kEarly;
      const auto some_norms = [&](int j) {
#pragma unroll
        for (int kk = 8 * (j - kEarly) / late; kk < 8 * (j - kEarly + 1) / late; ++kk) {
          std::uint32_t r[4];
          ldmatrix(r, (x ^ ((kk & 3) << 5)) + (kk >> 2) * kTile);
          mma<type>(lo, r, r[0], r[2]);
          mma<type>(hi, r, r[1], r[3]);
          if (of_pairs && wg == 0) {
            std::uint32_t k[4];
            const Smem y = fragment_a(rows_of_block, 32 * (1 ^ block) + 16 * (w4 & 1), kept(lane));
            ldmatrix(k, (y ^ ((kk & 3) << 5)) + (kk >> 2) * kTile);
            mma<type>(lo_dots, r, k[0], k[2]);
            mma<type>(hi_dots, r, k[1], k[3]);
          }
        }
      };
      if constexpr (!is_raw) {
        decays<gate, kEarly, 8>(gates, a, some_norms);
      } else {
#pragma unroll
        for (int j = kEarly; j < 8; ++j) some_norms(j);
      }
    }
    if (!is_raw &&
        (rows < kChunk || call.K < kHead)) {  // nothing decays past the sequence's end and past the channels
      rarely();
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (8 * warp + j >= rows || 4 * lane >= std::uint32_t(call.K))
          a[j][0] = a[j][1] = a[j][2] = a[j][3] = 1;
    }
    bool odd = false;
    {
      const float f = wg == 0 ? 16.0f * call.scale : 1.0f;
      const Window window = p.windows[wg];
      // kept(lane): what depends on it is computed again, and takes no register meanwhile.
      const std::uint32_t g = kept(lane) >> 2, t = kept(lane) & 3, token = 16 * w4 + g;
      const Smem to = factors_of<kind>(at, turn) + wg * Prep::of_key + token * Prep::factors;
      if (t == (g >> 1)) {
        const float squares[2] = {(g & 1) ? lo[1] : lo[0], (g & 1) ? hi[3] : hi[2]};
#pragma unroll
        for (std::uint32_t h = 0; h < 2; ++h) {
          const float factor = call.l2norm ? f * rsqrt_of(squares[h] + 1e-6f) : f;
          store(to + 8 * Prep::factors * h, factor);
          if (of_pairs && wg == 0)
            store(at + Prep::dots + 4 * (token + 8 * h), h == 0    ? (g & 1) ? lo_dots[1] : lo_dots[0]
                                                            : (g & 1) ? hi_dots[3]
                                                                   : hi_dots[2]);
          if (token + 8 * h < rows) odd |= !(squares[h] >= window.least && squares[h] <= window.most);
        }
      }
    }
    if constexpr (is_raw) {
      odd = any(odd);
      if (lane == 0) store(at + Prep::vote + 4 * warp, load_u32(at + Prep::odd_rest) | (odd ? kOdd : 0u));
    } else {
      prep_tally(at, warp, kept(lane), a, odd, load_u32(at + Prep::odd_rest));
    }
    probe.mark(4);
    if (n >= 2) mbar_wait(at + Prep::bar_left, turn ^ 1, patience);
    if (warp == 0 && lane == 0) store(at + Packet::odd, U2{0, f32_bits(1.0f)});  // plain until prep_odd
    barrier(Barrier::scaling, Prep::threads);
    probe.mark(5);
    return true;
  }
};

}  // namespace fla::flash_kda
