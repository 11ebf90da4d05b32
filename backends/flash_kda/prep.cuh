#pragma once

#include "backends/flash_kda/gates.cuh"
#include "backends/flash_kda/probe.cuh"
#include "backends/flash_kda/range.cuh"

/// Prep: the operators of a chunk of one head, as a packet (layout.cuh). A CTA of 20 warps goes from one work
/// to the next, in two places of shared memory in turn: while warps 8 to 15 fold work n in one place, warps 0
/// to 7 scale work n + 1 in the other, and the inputs of n + 2 come as soon as there is room. Warp 16 carries
/// packets away, and waits for memory as long as it takes.
///
/// Notation. a_i: decay of token i, a vector over channels. D(x -> y): the product of the decays between.
///   M_ij = 16 scale q_i (D(j -> i) k_j), i >= j      L_ij = beta_i k_i (D(j -> i) k_j), i > j
///   T = (I + L)^-1                                   T2 = T diag(beta)
///   Q~_i = 16 scale q_i D(start -> i)                K~_i = k_i D(start -> i)      Kr_i = k_i D(i -> end)
///   packet: Kt = K~   B = M T2 / 16   Qh = Q~ - M T2 K~   Kr = T2^T Kr
///
///   step         who                                       from -> to (shared memory unless said)
///   1  loads     threads of the folding warps: TMA         g -> g;  q, k -> raw: [q0; k0] [k1; q1],
///                                                          blocks of 32 tokens, two halves each
///   scale: warps 0 to 7
///   2  gates     warp: 8 tokens, lane: 4 channels          g -> a (registers); products over the 8 -> run
///      norms     warp: 16 tokens of q or of k, by mma      raw -> diagonal of X X^T -> factor
///      ------------ barrier; how, by vote: gentle where no run of 8 decays by more than 2^-2, exact where
///                   one does by more than 2^-59, or else steep
///   3  copies    as gates; scales: running products of a   raw -> in place q, k D(mid -> i), steep in bf16
///                                                          for the range, gentle in f16: the errors of
///                                                          slow gates add up
///                mid: after 16 tokens of a block           k D(i -> mid_1) -> g;
///                                                          k D(i -> mid_0) -> packet.b, of block 0;
///                                                          Q~, K~, Kr (f16) -> packet
///   fold: warps 8 to 15, warpgroups F0 and F1
///   4  pairs     F0: [q0; k0] x k of block 0               raw, packet.b -> wgmma -> registers
///                F1: [k1; q1] x k of both blocks           raw, g -> wgmma -> registers
///      ------------ barrier
///   5  solve     four warps, 16 rows of L each             -L (f16) -> raw; its diagonal 8 x 8 (f32) -> run
///                T of its 16 x 16: a lane a column of      -> T^T (f16) -> raw; T2^T (f16) -> packet.b
///                8 x 8, then one merge by mma
///                then the 16 columns below, block by       L, T^T -> T2^T -> packet.b
///                block, by mma
///      M         the other four, masked                    M (f16) -> raw -> registers of F1
///                then what comes, a warp for each: where n + 3 is; g of n + 2; beta and gate parameters of
///                n + 2, in flight until 6
///      ------------ barrier: raw is free
///   6  folds     F0: T2^T Kr                               packet -> wgmma -> packet.kr
///                F1: M T2, then Q~ - M T2 K~               packet -> wgmma -> packet.b, packet.qh
///      F0        a thread a warp: q, k of n + 2
///      ------------ barrier
///   carry: warp 16
///   7  out       a thread: when there is room, bulk        packet -> memory or L2
///                copies; when they have read the packet,
///                its place is free; when they are there,
///                others may read it
///
///   exact: instead of 3 and 4, by the scaling warps, D(j -> i) by running products down the rows, all in
///   f32; about five times the time.
///   Heads of 64 channels: TMA brings zeros for the others, and nothing decays there.
namespace fla::flash_kda {

struct Prep {
  static constexpr std::uint32_t threads = 256;  // that scale, and as many that fold
  static constexpr std::uint32_t packet = 0;
  static constexpr std::uint32_t raw = 57 * 1024, g = raw + 4 * kTile;  // g: [2 halves][64 tokens]
  // block 0's columns for its own rows: 2 halves x 32 rows
  static constexpr std::uint32_t k0 = packet + Packet::b;
  // after the pairs
  static constexpr std::uint32_t m = raw, l = raw + kTile, tt = raw + 2 * kTile, t2t = packet + Packet::b;
  static constexpr std::uint32_t run = g + 2 * kTile;  // f32 [8 runs of 8 tokens][128]: products of decays
  static constexpr std::uint32_t factor = run + 4096;  // f32 [64][2]: of q (with 16 scale), of k
  static constexpr std::uint32_t diagonal = run;  // after the copies: f32 [8 blocks][8 columns][8 rows] of L
  static constexpr std::uint32_t beta = factor + 512;  // f32 [2][64], in turn
  static constexpr std::uint32_t gates =
      beta + 512;  // f32 [128]: offsets; slope, rate; u32: kOdd for the betas
  static constexpr std::uint32_t vote = gates + 528;  // u32 [8], one a warp
  // 2 x u32 [8], in turn: head, batch, token, rows, packet, number, stream, head of q and k
  static constexpr std::uint32_t record = vote + 32;
  static constexpr std::uint32_t bar_g = record + 64, bar_qk = bar_g + 8, bar_left = bar_g + 16;
  static constexpr std::uint32_t ticks = bar_g + 24;  // probe builds: u32 [2][16]
  static constexpr std::uint32_t end = ticks + 128;
  static constexpr std::uint32_t bytes = (end + 1023) / 1024 * 1024;
};
static_assert(Prep::raw % 1024 == 0 && Prep::raw >= Packet::bytes && 2 * Prep::bytes + 1024 <= 232448);

template <Half16 type>
FLA_DEVICE void unpack4(U2 r, float (&x)[4]) {
  const F2 lo = unpack<type>(r.x), hi = unpack<type>(r.y);
  x[0] = lo.x, x[1] = lo.y, x[2] = hi.x, x[3] = hi.y;
}
FLA_DEVICE void store_f16(Smem a, const float (&x)[4], const float (&s)[4]) {
  store(a, U2{pack_f16(x[0] * s[0], x[1] * s[1]), pack_f16(x[2] * s[2], x[3] * s[3])});
}
/// What the pairs multiply.
template <Half16 pairs>
FLA_DEVICE void store_pairs(Smem a, const float (&x)[4]) {
  store(a, pairs == Half16::bf16 ? U2{pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3])}
                                 : U2{pack_f16(x[0], x[1]), pack_f16(x[2], x[3])});
}
template <Half16 pairs>
FLA_DEVICE void store_pairs(Smem a, const float (&x)[4], const float (&s)[4]) {
  const float y[4] = {x[0] * s[0], x[1] * s[1], x[2] * s[2], x[3] * s[3]};
  store_pairs<pairs>(a, y);
}
FLA_DEVICE void load4(Smem a, float (&x)[4]) {
  const F4 v = load_f32x4(a);
  x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}

/// Where element (i, j) of L is among its 8 x 8 blocks on the diagonal, column by column.
FLA_DEVICE std::uint32_t in_diagonal(std::uint32_t i, std::uint32_t j) {
  return (i >> 3) * 256 + (j & 7) * 32 + (i & 7) * 4;
}

/// Where the rows of q and of k are for a thread of token 32 block + i, beyond their places in a tile of 64
/// rows.
FLA_DEVICE std::uint32_t q_rows(std::uint32_t block) { return Prep::raw + block * 16384; }
FLA_DEVICE std::uint32_t k_rows(std::uint32_t block) { return Prep::raw + 4096 + block * 8192; }

/// What the warps that scale say of a work, or-ed, and what is known of its betas: a run of 8 tokens decays
/// by more than 2^-2, by more than 2^-59; kOdd, kScaled.
inline constexpr std::uint32_t kSteep = 1, kStrong = 2;
inline constexpr std::uint32_t kLost = 8;  ///< the first bit of what prep_odd leaves to prep_lose
FLA_DEVICE std::uint32_t votes_of(Smem at) {
  const U4 x = load_u32x4(at + Prep::vote), y = load_u32x4(at + Prep::vote + 16);
  const std::uint32_t of_betas = load_u32(at + Prep::gates + 520);
  return uniform(x.x | x.y | x.z | x.w | y.x | y.y | y.z | y.w | of_betas);
}
/// How a work is scaled.
enum class Way : std::uint32_t { gentle, steep, exact };
FLA_DEVICE Way way_of(std::uint32_t votes) {
  return (votes & kStrong) != 0 ? Way::exact : (votes & kSteep) != 0 ? Way::steep : Way::gentle;
}

/// The chunk's tile rows of a thread: token 8 warp + j is at row_of(x0, j) in a 64-row tile at offset 0.
FLA_DEVICE Smem row_of(Smem x0, int j) { return (x0 ^ (j << 4)) + j * 128; }

/// Step 2: products of the decays of a warp's tokens, and its vote beside those that are known.
FLA_DEVICE void prep_tally(Smem smem, std::uint32_t warp, std::uint32_t lane, const float (&a)[8][4],
                           bool odd, std::uint32_t votes = 0) {
  float run[4];
#pragma unroll
  for (int c = 0; c < 4; ++c)
    run[c] = ((a[0][c] * a[1][c]) * (a[2][c] * a[3][c])) * ((a[4][c] * a[5][c]) * (a[6][c] * a[7][c]));
  store(smem + Prep::run + warp * 512 + lane * 16, F4{run[0], run[1], run[2], run[3]});
  const auto below = [&](float x) { return any(run[0] < x || run[1] < x || run[2] < x || run[3] < x); };
  const bool is_decay = run[0] <= kWeakestDecay && run[1] <= kWeakestDecay && run[2] <= kWeakestDecay &&
                        run[3] <= kWeakestDecay;  // NaN is none
  if (below(0x1p-2f)) votes |= kSteep;
  if (below(0x1p-59f)) votes |= kStrong;
  if (any(odd || !is_decay)) votes |= kOdd;
  if (lane == 0) store(smem + Prep::vote + 4 * warp, votes);
}

/// Step 2 again for a work with magnitudes out of the ordinary, a warp its 8 tokens: factors and betas with
/// powers of two, which go into the packet; from the first token on whose key, beta or gate is not finite it
/// is as if the sequence had ended. Leaves in the warp's vote, from kLost on, for which of the 8 tokens Qh is
/// to be NaN, a bit each, and in the next bit whether gamma is.
template <Half16 type>
FLA_DEVICE void prep_odd(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane, std::uint32_t rows,
                         float (&a)[8][4], Smem betas, std::uint32_t votes) {
  const std::uint32_t block = warp >> 2;
  // Decays wait in the packet meanwhile: registers are few.
  const Smem decay = smem + Prep::packet + warp * 4096 + lane * 16;
#pragma unroll
  for (int j = 0; j < 8; ++j) store(decay + j * 512, F4{a[j][0], a[j][1], a[j][2], a[j][3]});
  const auto raise = [](std::uint32_t& most, float x) {
    most = magnitude_bits(x) > most ? magnitude_bits(x) : most;
  };
  // The largest channel of k between 2^-6 and 1, of q between 2^-5 and 2^4, as norms within their windows
  // have them, or to 2^-2 and 1.
  const auto exponent = [](std::uint32_t most, std::int32_t least, std::int32_t end, std::int32_t to) {
    const std::int32_t x = exponent_of(most);
    return most == 0 || most >= kInfinity || (x >= least && x < end) ? 0 : clamped(x - to);
  };
  std::uint32_t first = kChunk, lost = 0, most_b = 0;
#pragma unroll 1
  for (std::uint32_t j = 0; j < 8; ++j) {
    const std::uint32_t token = 8 * warp + j;
    const F2 f = load_f32x2(smem + Prep::factor + 8 * token);
    const float beta = load_f32(betas + 4 * token);
    std::uint32_t most_q = 0, most_k = 0, most_a = 0;
    float x[4];
    unpack4<type>(load_u32x2(row_of(x0, j) + q_rows(block)), x);
#pragma unroll
    for (int c = 0; c < 4; ++c) raise(most_q, x[c] * f.x);
    unpack4<type>(load_u32x2(row_of(x0, j) + k_rows(block)), x);
#pragma unroll
    for (int c = 0; c < 4; ++c) raise(most_k, x[c] * f.y);
    load4(decay + j * 512, x);
#pragma unroll
    for (int c = 0; c < 4; ++c) raise(most_a, x[c]);
    most_q = largest(most_q), most_k = largest(most_k), most_a = largest(most_a);
    if (token >= rows) most_q = most_k = most_a = 0;
    if (token < first && (most_k >= kInfinity || most_a >= kInfinity || !is_finite(beta))) first = token;
    if (most_q >= kInfinity) lost |= 1u << j;
    const std::int32_t key = exponent(most_k, -6, 1, -2), query = exponent(most_q, -5, 5, 0);
    if (key != 0 || query != 0) votes |= kScaled;
    const float scaled_beta = beta * power(key) * power(key);
    if (is_finite(scaled_beta)) raise(most_b, scaled_beta);
    warp_sync();  // all lanes have read
    if (lane == 0) {
      store(smem + Prep::factor + 8 * token, F2{f.x * power(-query), f.y * power(-key)});
      store(betas + 4 * token, scaled_beta);
      store(smem + Packet::v_scale + 2 * token, static_cast<std::uint16_t>(f32_bits(power(-key)) >> 16));
      store(smem + Packet::o_scale + 2 * token, static_cast<std::uint16_t>(f32_bits(power(query)) >> 16));
    }
  }
  barrier(Barrier::scaling, Prep::threads);  // all warps have read the votes
  if (lane == 0) store(smem + Prep::vote + 4 * warp, first | most_b >> 23 << 8);
  barrier(Barrier::scaling, Prep::threads);
  std::uint32_t exponent_b = 0;  // with its bias
#pragma unroll 1
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint32_t other = load_u32(smem + Prep::vote + 4 * i);
    first = (other & 255) < first ? other & 255 : first;
    exponent_b = other >> 8 > exponent_b ? other >> 8 : exponent_b;
  }
  first = uniform(first), exponent_b = uniform(exponent_b);
  std::int32_t w = 0;
  if (exponent_b != 0 && (exponent_b < 127 - 6 || exponent_b > 127 + 2))
    w = clamped(127 - static_cast<std::int32_t>(exponent_b)), votes |= kScaled;
  if (warp == 0 && lane == 0) {
    store(smem + Packet::unit, power(w));
  }
  barrier(Barrier::scaling, Prep::threads);  // votes may be written again
  if (first < kChunk) lost |= 256;
#pragma unroll
  for (std::uint32_t j = 0; j < 8; ++j) {
    const std::uint32_t token = 8 * warp + j;
    const Smem factor = smem + Prep::factor + 8 * token;
    load4(decay + j * 512, a[j]);
    if (token >= first) {
      lost |= 1u << j;
#pragma unroll
      for (int c = 0; c < 4; ++c) a[j][c] = is_finite(a[j][c]) ? a[j][c] : 1;
      store(row_of(x0, j) + k_rows(block), U2{0, 0});
      if (lane == 0) store(betas + 4 * token, 0.0f), store(factor + 4, 0.0f);
    }
    if ((lost >> j & 1) != 0) {
      store(row_of(x0, j) + q_rows(block), U2{0, 0});
      if (lane == 0) store(factor, 0.0f);
    }
  }
  // As steep as it was: what comes before the first token that is not finite keeps its bits.
  prep_tally(smem, warp, lane, a, false, votes | lost << kLost);
  barrier(Barrier::scaling, Prep::threads);
}

/// What prep_odd said of Qh and gamma.
FLA_DEVICE void prep_lose(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane, std::uint32_t lost) {
  constexpr std::uint32_t nan = 0x7fff7fff;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    if ((lost >> j & 1) != 0) store(row_of(x0, j) + Packet::qh, U2{nan, nan});
  if (warp == 7 && (lost & 256) != 0) store(smem + Packet::gamma + lane * 16, F4{kNaN, kNaN, kNaN, kNaN});
}

/// Step 3 for the thread's 8 tokens x 4 channels; one code for both blocks and for both halves of the tokens,
/// for the instruction cache. With D from one place to another the product of the decays between:
///   forward   x = D from mid to i; q x, k x in place; times D from the start to mid (it may be subnormal:
///             harmless) they are Q~, K~
///   backward  y = D from i to the end of its 8, then times D from there to the chunk's end -> Kr, to mid_1
///             -> g, and in block 0 to mid_0 -> packet.b (one chain through mid_0 would lose D from mid_0 to
///             mid_1, which can be below 2^-149 while its products matter)
template <Half16 type, Half16 pairs>
FLA_DEVICE void prep_copies(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane, float (&a)[8][4]) {
  const std::uint32_t block = warp >> 2, w4 = warp & 3;
  const Smem run = smem + Prep::run + lane * 16;
  float mid[4], to_mid1[4], to_end[4], x[4], to_mid[4];
  {
    float own[4], beside[4], pair[4][4];
    load4(run + warp * 512, own);
    load4(run + (warp ^ 1) * 512, beside);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float p[4];
      load4(run + i * 1024, pair[i]);
      load4(run + i * 1024 + 512, p);
#pragma unroll
      for (int c = 0; c < 4; ++c) pair[i][c] *= p[c];
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float between = w4 == 0 || w4 == 3 ? beside[c] : 1,  // the run and mid
          near = (warp & 1) == 0 ? beside[c] : 1,                // the run and the end of its 16
          r = rcp(own[c] * between);
      x[c] = w4 < 2 ? r : between;
      to_mid[c] = w4 < 2 ? between : r;
      mid[c] = pair[0][c];
      if (block == 0) {
        to_mid1[c] = near * pair[2][c];
        if (w4 < 2) to_mid1[c] *= pair[1][c];
        to_end[c] = to_mid1[c] * pair[3][c];
      } else {
        mid[c] *= pair[1][c] * pair[2][c];
        to_mid1[c] = to_mid[c];
        to_end[c] = near;
        if (w4 < 2) to_end[c] *= pair[3][c];
      }
    }
    if (warp == 7)
      store(smem + Prep::packet + Packet::gamma + lane * 16,
            F4{mid[0] * pair[3][0], mid[1] * pair[3][1], mid[2] * pair[3][2], mid[3] * pair[3][3]});
  }
  const std::uint32_t to_k0 = Prep::k0 - (lane >> 4) * 4096;
  Smem factor = smem + Prep::factor + warp * 64;
  float y[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) y[c] = ((a[7][c] * a[6][c]) * a[5][c]) * a[4][c];
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    // Loads go a token ahead: they cannot pass stores whose addresses the compiler cannot compare.
    U2 q_raw[4], k_raw[4];
    F2 f[4];  // of q, of k
    const auto fetch = [&](int j) {
      if (j >= 4) return;
      f[j] = load_f32x2(factor + 8 * j);
      q_raw[j] = load_u32x2(row_of(x0, j) + q_rows(block));
      k_raw[j] = load_u32x2(row_of(x0, j) + k_rows(block));
    };
    float k[4][4];
    fetch(0);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      fetch(j + 1);
      const Smem at = row_of(x0, j);
      float q[4], km[4];
      unpack4<type>(q_raw[j], q);
      unpack4<type>(k_raw[j], k[j]);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        x[c] *= a[j][c];
        k[j][c] *= f[j].y;
        q[c] = (q[c] * f[j].x) * x[c];
        km[c] = k[j][c] * x[c];
      }
      store_pairs<pairs>(at + q_rows(block), q);
      store_pairs<pairs>(at + k_rows(block), km);
      store_f16(at + Packet::qh, q, mid);
      store_f16(at + Packet::kt, km, mid);
    }
#pragma unroll
    for (int j = 3; j >= 0; --j) {
      const Smem at = row_of(x0, j);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (j < 3) y[c] *= a[j + 1][c];
        k[j][c] *= y[c];
      }
      store_f16(at + Packet::kr, k[j], to_end);
      store_pairs<pairs>(at + Prep::g, k[j], to_mid1);
      if (block == 0) store_pairs<pairs>(at + to_k0, k[j], to_mid);
    }
    x0 = row_of(x0, 4);
    factor += 32;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      y[c] = 1;
#pragma unroll
      for (int j = 0; j < 4; ++j) a[j][c] = a[j + 4][c];
    }
  }
}

/// The 16 x 16 blocks of T2^T below the diagonal: 32 threads a block, 192 in all.
FLA_DEVICE void zero_below(Smem smem, std::uint32_t tid) {
  const std::uint32_t i = tid >> 5;  // (1,0) (2,0) (2,1) (3,0) (3,1) (3,2)
  const std::uint32_t row = (0x333221u >> (4 * i)) & 15, column = (0x210100u >> (4 * i)) & 15;
  store(smem + Prep::t2t + swizzled(16 * row + ((tid >> 1) & 15), 32 * column + 16 * (tid & 1)),
        U4{0, 0, 0, 0});
}

/// Exact pairs: M and -L by products of decays alone, thread = column j and a quarter of the channels, rows
/// one after the other. Decays stand in the packet's first 32 KB meanwhile; M and L arise in g.
template <Half16 type>
FLA_DEVICE void exact_pairs(Smem smem, std::uint32_t tid, std::uint32_t warp, std::uint32_t lane,
                            float (&a)[8][4], Smem beta) {
  const Smem decay = smem + Prep::packet, m = smem + Prep::g, l = m + kTile, diagonal = smem + Packet::b;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    store(decay + (8 * warp + j) * 512 + lane * 16, F4{a[j][0], a[j][1], a[j][2], a[j][3]});
#pragma unroll
  for (int i = 0; i < 4; ++i) store(m + tid * 16 + i * 4096, U4{0, 0, 0, 0});
  if (tid < 128) store(diagonal + tid * 16, U4{0, 0, 0, 0});
  barrier(Barrier::scaling, Prep::threads);

  const std::uint32_t j = tid >> 2, part = tid & 3;
  // Channels 16 n + 4 part + {0 … 3}, n = 0 … 7, of token i.
  const auto at = [&](std::uint32_t i, std::uint32_t n) {
    return smem + (n >> 2) * kTile + swizzled(i, (n & 3) * 32 + part * 8);
  };
  float w[8][4];
  {
    const float f = load_f32(smem + Prep::factor + 8 * j + 4);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      unpack4<type>(load_u32x2(at(j, n) + k_rows(j >> 5)), w[n]);
#pragma unroll
      for (int c = 0; c < 4; ++c) w[n][c] *= f;
    }
  }
#pragma unroll 1
  for (std::uint32_t i = 8 * warp; i < kChunk; ++i) {
    float dot_q = 0, dot_k = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float d[4], q[4], k[4];
      load4(decay + i * 512 + n * 64 + part * 16, d);
      unpack4<type>(load_u32x2(at(i, n) + q_rows(i >> 5)), q);
      unpack4<type>(load_u32x2(at(i, n) + k_rows(i >> 5)), k);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        w[n][c] *= i > j ? d[c] : 1.0f;
        dot_q = fma_of(q[c], w[n][c], dot_q);
        dot_k = fma_of(k[c], w[n][c], dot_k);
      }
    }
    dot_q += shuffle_xor(dot_q, 1), dot_k += shuffle_xor(dot_k, 1);
    dot_q += shuffle_xor(dot_q, 2), dot_k += shuffle_xor(dot_k, 2);
    const F2 f = load_f32x2(smem + Prep::factor + 8 * i);
    const float x = dot_q * f.x, z = -dot_k * f.y * load_f32(beta + 4 * i);
    if (part == 0 && i >= j) store(m + swizzled(i, 2 * j), static_cast<std::uint16_t>(pack_f16(x, 0)));
    if (part == 1 && i > j) store(l + swizzled(i, 2 * j), static_cast<std::uint16_t>(pack_f16(z, 0)));
    if (part == 2 && i > j && (i >> 3) == (j >> 3)) store(diagonal + in_diagonal(i, j), z);
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) load4(decay + (8 * warp + r) * 512 + lane * 16, a[r]);
  barrier(Barrier::scaling, Prep::threads);
}

/// Q~, K~, Kr without a reference: every exponent is that of a decay.
template <Half16 type>
FLA_DEVICE void exact_copies(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane,
                             const float (&a)[8][4]) {
  const std::uint32_t block = warp >> 2;
  float x[4] = {1, 1, 1, 1};
#pragma unroll 1
  for (std::uint32_t i = 0; i < 8; ++i) {
    float p[4];
    load4(smem + Prep::run + i * 512 + lane * 16, p);
#pragma unroll
    for (int c = 0; c < 4; ++c) x[c] *= i < warp ? p[c] : 1.0f;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const Smem at = row_of(x0, j);
    const F2 f = load_f32x2(smem + Prep::factor + (8 * warp + j) * 8);
    float q[4], k[4];
    unpack4<type>(load_u32x2(at + q_rows(block)), q);
    unpack4<type>(load_u32x2(at + k_rows(block)), k);
#pragma unroll
    for (int c = 0; c < 4; ++c) x[c] *= a[j][c], q[c] *= f.x, k[c] *= f.y;
    store_f16(at + Packet::qh, q, x);
    store_f16(at + Packet::kt, k, x);
  }
  warp_sync();
  if (warp == 7) store(smem + Prep::packet + Packet::gamma + lane * 16, F4{x[0], x[1], x[2], x[3]});
  float y[4] = {1, 1, 1, 1};
#pragma unroll 1
  for (std::uint32_t i = warp + 1; i < 8; ++i) {
    float p[4];
    load4(smem + Prep::run + i * 512 + lane * 16, p);
#pragma unroll
    for (int c = 0; c < 4; ++c) y[c] *= p[c];
  }
#pragma unroll
  for (int j = 7; j >= 0; --j) {
    const Smem at = row_of(x0, j);
    const float fk = load_f32(smem + Prep::factor + (8 * warp + j) * 8 + 4);
    float k[4];
    unpack4<type>(load_u32x2(at + k_rows(block)), k);
#pragma unroll
    for (int c = 0; c < 4; ++c) k[c] *= fk;
    store_f16(at + Packet::kr, k, y);
#pragma unroll
    for (int c = 0; c < 4; ++c) y[c] *= a[j][c];
  }
}

/// M and L from where exact_pairs put them to where the solve wants them.
FLA_DEVICE void exact_move(Smem smem, std::uint32_t tid) {
  barrier(Barrier::scaling, Prep::threads);  // q, k and the runs are read
#pragma unroll
  for (std::uint32_t i = 0; i < 2; ++i) {
    const Smem from = smem + Prep::g + tid * 16 + i * 4096;
    store(smem + Prep::m + tid * 16 + i * 4096, load_u32x4(from));
    store(smem + Prep::l + tid * 16 + i * 4096, load_u32x4(from + kTile));
  }
  if (tid < 128) store(smem + Prep::diagonal + tid * 16, load_u32x4(smem + Packet::b + tid * 16));
  barrier(Barrier::scaling, Prep::threads);
}

/// Step 4, of one warpgroup: its 64 rows at a times n columns at b.
template <int n>
FLA_DEVICE void prep_pairs(Smem a, Smem b, bool steep, float (&d)[n / 2]) {
  const std::uint64_t da = k_major(a), db = k_major(b);
  const auto multiply = [&]<Half16 pairs> {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 8; ++kk)
      wgmma_ss<n, pairs, 0>(d, da + k_step(kk), db + k_step(kk, n * 128), kk > 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(d);
  };
  if (steep)
    multiply.template operator()<Half16::bf16>();
  else
    multiply.template operator()<Half16::f16>();
}

/// Step 5: rows 16 w to 16 w + 15 of M, masked in their own block.
FLA_DEVICE void prep_mask(float (&own)[16], std::uint32_t w, std::uint32_t lane) {
  // column 8 i + 2 t + e stays if 8 i + e <= limit (+ 8 in the lower half)
  const int limit = int(16 * (w & 1) + (lane >> 2)) - int(2 * (lane & 3));
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int j = 8 * (i >> 2) - 8 * ((i >> 1) & 1) + (i & 1);
    own[i] = j <= limit ? own[i] : 0.0f;  // may be Inf, NaN
  }
}

/// Step 5: rows 16 w to 16 w + 15 of -L, which is what the solve adds up. Of them only blocks strictly below
/// the diagonal are read: no mask.
FLA_DEVICE void prep_rows(Smem smem, F2 beta, float (&own)[16], float (&before)[16], std::uint32_t w,
                          std::uint32_t lane) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float b = (i & 2) == 0 ? -beta.x : -beta.y;
    own[i] *= b;
    before[i] *= b;
  }
  // Of the block on the diagonal, tiles 2 w and 2 w + 1, in f32 what the inverses of 8 x 8 read; only rows >
  // column.
  const bool odd = (w & 1) != 0;
  const Smem to = smem + Prep::diagonal + in_diagonal(16 * w + (lane >> 2), 2 * (lane & 3));
  store(to, odd ? own[8] : own[0]);
  store(to + 32, odd ? own[9] : own[1]);
  store(to + 256, odd ? own[14] : own[6]);
  store(to + 256 + 32, odd ? own[15] : own[7]);
}

/// 16 x 16 of a tile, from accumulators; `at` as fragment_a has it.
FLA_DEVICE void store_square(Smem at, const float* d) {
  stmatrix(at, pack_f16(d[0], d[1]), pack_f16(d[2], d[3]), pack_f16(d[4], d[5]), pack_f16(d[6], d[7]));
}
/// Rows 16 w to 16 w + 15 of M or -L: 32 columns of their own block, 32 of the other.
FLA_DEVICE void store_rows(Smem to, const float (&own)[16], const float (&other)[16], std::uint32_t w,
                           std::uint32_t lane) {
  const Smem at = fragment_a(to, 16 * w, lane) ^ ((w >> 1) * 64);
#pragma unroll
  for (int i = 0; i < 4; ++i) store_square(at ^ (32 * i), (i < 2 ? own : other) + 8 * (i & 1));
}

/// Column lane / 4 of (I + L)^-1, of the 8 x 8 block at `from`.
FLA_DEVICE void prep_column(Smem from, std::uint32_t lane, float (&s)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i] = std::uint32_t(i) == lane >> 2 ? 1.0f : 0.0f;
#pragma unroll
  for (int j = 0; j < 7; ++j)
#pragma unroll
    for (int q = (j + 1) / 4; q < 2; ++q) {
      float v[4];
      load4(from + 32 * j + 16 * q, v);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (4 * q + e > j) s[4 * q + e] = fma_of(v[e], s[j], s[4 * q + e]);
    }
}
/// Elements 2 t and 2 t + 1.
FLA_DEVICE F2 prep_pick(const float (&s)[8], std::uint32_t t) {
  const bool odd = (t & 1) != 0, high = (t & 2) != 0;
  const F2 lo = odd ? F2{s[2], s[3]} : F2{s[0], s[1]}, hi = odd ? F2{s[6], s[7]} : F2{s[4], s[5]};
  return high ? hi : lo;
}

/// Step 5: the inverse of the 16 x 16 block w on the diagonal, transposed, as an A operand; to
/// tt, and times beta to T2^T.
///     [A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1, D^-1]
FLA_DEVICE void prep_invert(Smem smem, F2 beta, std::uint32_t w, std::uint32_t lane, std::uint32_t (&a)[4]) {
  const Smem diagonal = smem + Prep::diagonal + 512 * w;
  float x[8], y[8];
  prep_column(diagonal, lane, x);
  prep_column(diagonal + 256, lane, y);
  std::uint32_t l[4];
  ldmatrix(l, fragment_b(smem + Prep::l, 16 * w, lane) ^ (32 * w));
  const F2 first = prep_pick(x, lane & 3), last = prep_pick(y, lane & 3);
  a[0] = pack_f16(first.x, first.y), a[1] = 0, a[2] = 0, a[3] = pack_f16(last.x, last.y);
  float u[4] = {0, 0, 0, 0}, z[4] = {0, 0, 0, 0};
  const std::uint32_t upper[4] = {a[0], 0, 0, 0};
  mma<Half16::f16>(u, upper, l[2], 0);
  const std::uint32_t product[4] = {pack_f16(u[0], u[1]), 0, 0, 0};
  mma<Half16::f16>(z, product, transposed(a[3]), 0);
  a[2] = pack_f16(z[0], z[1]);
  stmatrix(fragment_a(smem + Prep::tt, 16 * w, lane) ^ (32 * w), a[0], a[1], a[2], a[3]);
  stmatrix(fragment_a(smem + Prep::t2t, 16 * w, lane) ^ (32 * w),
           pack_f16(beta.x * first.x, beta.x * first.y), 0, pack_f16(beta.x * z[0], beta.x * z[1]),
           pack_f16(beta.y * last.x, beta.y * last.y));
}

/// Step 5, when all diagonal blocks are there: the blocks of T below block w, transposed, times beta to T2^T.
/// a: block w itself.
///     T_iw = -T_ii (sum over k from w to i - 1 of L_ik T_kw)
FLA_DEVICE void prep_below(Smem smem, F2 beta, std::uint32_t w, std::uint32_t lane, std::uint32_t (&a)[4]) {
  // Block w + 1 + i of rows. All loads come first: they do not pass stores.
  std::uint32_t l[3][3][4] = {}, t[3][4] = {};
  const Smem from_l = fragment_b(smem + Prep::l, 16 * (w + 1), lane),
             from_t = fragment_a(smem + Prep::tt, 16 * (w + 1), lane),
             to = fragment_a(smem + Prep::t2t, 16 * w, lane);
#pragma unroll
  for (std::uint32_t i = 0; i < 3; ++i)
    if (w + i < 3) {
#pragma unroll
      for (std::uint32_t k = 0; k <= i; ++k) ldmatrix(l[i][k], (from_l ^ (32 * (w + k))) + 2048 * i);
      ldmatrix_trans(t[i], (from_t ^ (32 * (w + 1 + i))) + 2048 * i);
    }
  float sum[3][2][4] = {};
#pragma unroll
  for (std::uint32_t k = 0; k < 3; ++k)
    if (w + k < 3) {
#pragma unroll
      for (std::uint32_t i = k; i < 3; ++i)
        if (i == k || w + i < 3) {
          mma<Half16::f16>(sum[i][0], a, l[i][k][0], l[i][k][1]);
          mma<Half16::f16>(sum[i][1], a, l[i][k][2], l[i][k][3]);
        }
      const auto& x = sum[k];
      const std::uint32_t product[4] = {pack_f16(x[0][0], x[0][1]), pack_f16(x[0][2], x[0][3]),
                                        pack_f16(x[1][0], x[1][1]), pack_f16(x[1][2], x[1][3])};
      float y[2][4] = {};
      mma<Half16::f16>(y[0], product, t[k][0], t[k][1]);
      mma<Half16::f16>(y[1], product, t[k][2], t[k][3]);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        a[2 * i] = pack_f16(y[i][0], y[i][1]), a[2 * i + 1] = pack_f16(y[i][2], y[i][3]);
      stmatrix(to ^ (32 * (w + 1 + k)), pack_f16(beta.x * y[0][0], beta.x * y[0][1]),
               pack_f16(beta.y * y[0][2], beta.y * y[0][3]), pack_f16(beta.x * y[1][0], beta.x * y[1][1]),
               pack_f16(beta.y * y[1][2], beta.y * y[1][3]));
    }
}

/// Rows 16 w4 to 16 w4 + 15 of an operator of the packet.
FLA_DEVICE void store_operator(Smem to, std::uint32_t w4, std::uint32_t lane, const float (&d)[64]) {
  const Smem at = fragment_a(to, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 8; ++j) store_square((at ^ ((j & 3) << 5)) + (j >> 2) * kTile, d + 8 * j);
}

/// Step 6, F0: T2^T Kr, to come over Kr. meanwhile(): while the products are on their way; then the other
/// warpgroup may write over T2.
template <class Meanwhile>
FLA_DEVICE void prep_fold_keys(Smem smem, float (&d)[64], Probe& probe, Meanwhile&& meanwhile) {
  const std::uint64_t da = k_major(smem + Prep::t2t), db = mn_major(smem + Packet::kr);
  wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) wgmma_ss<128, Half16::f16, 1>(d, da + k_step(kk), db + mn_step(kk), kk > 0);
  wgmma_commit();
  meanwhile();
  wgmma_wait<0>();
  keep(d);
  probe.mark(5);
  barrier_arrive(Barrier::t2_read, Prep::threads);
  barrier(Barrier::kr_read, 128);  // all four warps have read Kr
  probe.mark(6);
}

/// Step 6, F1: B = M T2, then Q~ - B K~, to come over Q~ (given in m and q). T2 has 2^w (range.cuh), and so
/// has B.
FLA_DEVICE void prep_fold_queries(Smem smem, std::uint32_t w4, std::uint32_t lane, std::uint32_t (&m)[16],
                                  const std::uint32_t (&q)[32], float unit, float (&d)[64], Probe& probe) {
  std::uint32_t b[16];
  {
    float mt[32];
    const std::uint64_t db = k_major(smem + Prep::t2t);
    keep(m);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) wgmma_rs<64, 1, 0>(mt, m + 4 * kk, db + k_step(kk), kk > 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(mt);
    keep(m);
#pragma unroll
    for (int i = 0; i < 16; ++i) b[i] = pack_f16(mt[2 * i], mt[2 * i + 1]);
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const F2 x = unpack_f16(q[i]);
    d[2 * i] = x.x, d[2 * i + 1] = x.y;
  }
  if (unit != 1.0f) {
    rarely();
    times_power(d, exponent_of(f32_bits(unit)));
  }
  const std::uint64_t db = mn_major(smem + Packet::kt);
  keep(d);
  keep(b);
  wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) wgmma_rs<128, -1, 1>(d, b + 4 * kk, db + mn_step(kk), 1);
  wgmma_commit();
  wgmma_wait<0>();
  keep(d);
  keep(b);
  if (unit != 1.0f) {
    rarely();
    times_power(d, -exponent_of(f32_bits(unit)));
  }
  probe.mark(5);
  barrier(Barrier::t2_read, Prep::threads);  // nobody reads T2 any more
  probe.mark(6);
  const Smem to_b = fragment_a(smem + Packet::b, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    stmatrix(to_b ^ (j << 5), scale_f16(b[4 * j], 0.0625f), scale_f16(b[4 * j + 1], 0.0625f),
             scale_f16(b[4 * j + 2], 0.0625f), scale_f16(b[4 * j + 3], 0.0625f));
}

/// Where a work stands in the records of a place: two, in turn. rows = 0: there is no work, nor any after it.
FLA_DEVICE Smem record_of(Smem at, std::uint32_t turn) { return at + Prep::record + 32 * turn; }

/// Tokens of a warp's eight whose gates come before q and k do.
inline constexpr int kEarly = 6;

/// Steps 2 and 3, warps 0 to 7: g, q, k of one work after the other to what the pairs and the folds multiply.
template <Half16 type, Gate gate>
FLA_DEVICE void prep_scale(const Params& p, Smem smem, std::uint32_t thread, std::int32_t worker) {
  const std::uint32_t warp = uniform(thread >> 5), lane = kept(thread & 31), wg = warp >> 2, w4 = warp & 3;
  const KdaCall& call = p.call;
  Patience patience;
  Probe probe{smem + Prep::ticks + 64 * wg, w4 == 0 && lane == 0};
  probe.begin();
  // Of work n, in place n & 1:
  std::uint32_t n = 0;
  float a[8][4];  // decays
  const auto place = [&] { return smem + (n & 1) * Prep::bytes; };
  const auto turn_of = [&] { return (n >> 1) & 1; };
  const auto betas = [&] { return place() + Prep::beta + 256 * turn_of(); };
  // Address of the thread's 4 channels of its first token in a 64-row tile at offset 0.
  const auto first_of = [&](std::uint32_t l) {
    return place() + warp * 1024 + (l >> 4) * kTile + (l & 15) * 8;
  };
  // Step 2. False: there are no more works.
  const auto measure = [&] {
    const std::uint32_t turn = turn_of();
    const Smem at = place();
    mbar_wait(at + Prep::bar_g, turn, patience);
    warp_sync();
    probe.mark(0);
    const Smem x0 = first_of(lane);
    // Everything is asked for before anything is looked at.
    const U4 work = load_u32x4(record_of(at, turn));
    const F2 slope_rate = load_f32x2(at + Prep::gates + 512);
    const Gates gates{slope_rate.x, slope_rate.y, load_f32x4(at + Prep::gates + 16 * kept(lane))};
    U2 raw[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) raw[j] = load_u32x2(row_of(x0, j) + Prep::g);
    const std::uint32_t rows = work.w;
    if (rows == 0) return false;

      // Gates and norms: the norms' matrix products fill time that the gates' functions take.
#pragma unroll
    for (int j = 0; j < 8; ++j) unpack4<type>(raw[j], a[j]);
    if (p.gate_f32) {
      const float* const from = static_cast<const float*>(call.g.data) + work.y * call.g.batch +
                                (std::int64_t(work.z) + 8 * warp) * call.g.token + work.x * call.g.head +
                                4 * lane;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const F4 x = 8 * warp + j < rows && 4 * lane < std::uint32_t(call.K)
                         ? *reinterpret_cast<const F4*>(from + j * call.g.token)
                         : F4{0, 0, 0, 0};
        a[j][0] = x.x, a[j][1] = x.y, a[j][2] = x.z, a[j][3] = x.w;
      }
    }
    probe.mark(1);
    decays<gate, 0, kEarly>(gates, a, [](int) {});
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
    {
      // the diagonal of X X^T; warps 0-3: 16 tokens of q each, warps 4-7: of k
      const std::uint32_t block = w4 >> 1;
      const Smem x =
          fragment_a(at + Prep::raw + block * 16384, 32 * (wg ^ block) + 16 * (w4 & 1), kept(lane));
      constexpr int late = 8 - kEarly;
      decays<gate, kEarly, 8>(gates, a, [&](int j) {
#pragma unroll
        for (int kk = 8 * (j - kEarly) / late; kk < 8 * (j - kEarly + 1) / late; ++kk) {
          std::uint32_t r[4];
          ldmatrix(r, (x ^ ((kk & 3) << 5)) + (kk >> 2) * kTile);
          mma<type>(lo, r, r[0], r[2]);
          mma<type>(hi, r, r[1], r[3]);
        }
      });
    }
    if (rows < kChunk || call.K < kHead) {  // nothing decays past the sequence's end and past the channels
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
      const Smem to = at + Prep::factor + wg * 4 + token * 8;
      if (t == (g >> 1)) {
        const float squares[2] = {(g & 1) ? lo[1] : lo[0], (g & 1) ? hi[3] : hi[2]};
#pragma unroll
        for (std::uint32_t h = 0; h < 2; ++h) {
          const float factor = call.l2norm ? f * rsqrt_of(squares[h] + 1e-6f) : f;
          store(to + 64 * h, factor);
          if (token + 8 * h < rows) odd |= !(squares[h] >= window.least && squares[h] <= window.most);
        }
      }
    }
    prep_tally(at, warp, kept(lane), a, odd);
    probe.mark(4);
    if (n >= 2) mbar_wait(at + Prep::bar_left, turn ^ 1, patience);
    barrier(Barrier::scaling, Prep::threads);
    probe.mark(5);

    if (warp == 0 && lane == 0) store(at + Packet::odd, U2{0, f32_bits(1.0f)});
    return true;
  };
  const auto hand_over = [&](std::uint32_t votes) {
    if ((votes & kOdd) != 0) {
      rarely();
      prep_lose(place(), first_of(kept(lane)), warp, kept(lane),
                load_u32(place() + Prep::vote + 4 * warp) >> kLost);
    }
    warp_sync();
    barrier_arrive(Barrier::scaled + (n & 1), 2 * Prep::threads);
    ++n;
    probe.mark(6);
  };
  // Step 3. Works that need more than the copies are taken care of outside of the others' loop: inside, their
  // code would slow the others down.
  constexpr std::uint32_t none = 0xffffffff;
  for (std::uint32_t votes = none;;) {  // of work n, once it has been measured
    do {
      if (votes != none) {
        if (way_of(votes) == Way::steep)
          prep_copies<type, Half16::bf16>(place(), first_of(kept(lane)), warp, kept(lane), a);
        else
          prep_copies<type, Half16::f16>(place(), first_of(kept(lane)), warp, kept(lane), a);
        hand_over(votes);
      }
      if (!measure()) {
        probe.end(p.probe ? p.probe + ((p.state_blocks + worker) * 4 + wg) * 16 : nullptr);
        return;
      }
      votes = votes_of(place());
    } while ((votes & (kOdd | kStrong)) == 0);
    if ((votes & kOdd) != 0) {
      rarely();
      prep_odd<type>(place(), first_of(kept(lane)), warp, kept(lane),
                     load_u32(record_of(place(), turn_of()) + 12), a, betas(), votes);
      votes = votes_of(place());
      if (warp == 0 && lane == 0) store(place() + Packet::odd, votes & (kOdd | kScaled));
    }
    if (way_of(votes) == Way::exact) {
      rarely();
      exact_pairs<type>(place(), 32 * warp + kept(lane), warp, kept(lane), a, betas());
      exact_copies<type>(place(), first_of(kept(lane)), warp, kept(lane), a);
      exact_move(kept(place()), 32 * warp + kept(lane));
      hand_over(votes);
      votes = none;
    }
  }
}

/// Steps 1 and 4 to 6, warps 8 to 15: finds the works, has their inputs loaded, and makes packets of what the
/// other warps scaled.
FLA_DEVICE void prep_fold(const Params& p, Smem smem, std::uint32_t warp, std::uint32_t lane,
                          std::int32_t worker, std::int32_t workers) {
  const std::uint32_t wg = warp >> 2, w4 = warp & 3;
  const KdaCall& call = p.call;
  const Schedule& schedule = p.schedule;
  Probe probe{smem + Prep::bytes + Prep::ticks + 64 * wg, (wg == 0 ? w4 == 2 : w4 == 3) && lane == 0};

  // Warps with 16 rows of L, one on each quarter of the SM; who of the others does what alone, while these
  // solve: they wait for nobody who waits for memory.
  const bool solves = wg == 0 ? w4 >= 2 : w4 < 2;
  constexpr std::uint32_t asking = 0, resting = 1, finding = 7;
  const bool finds = warp == finding && lane == 0;
  const std::uint32_t works = works_of(schedule);

  const auto announce = [&](std::int32_t w, const PlannedWork& seen, Smem to) {  // by the finding thread
    if (std::uint32_t(w) >= works) {
      store(to, U4{0, 0, 0, 0});
      return;
    }
    const Work work = locate(p, w, seen);
    store(to, U4{std::uint32_t(work.head), std::uint32_t(work.batch), std::uint32_t(work.token),
                 std::uint32_t(work.rows)});
    const std::uint32_t packet =
        schedule.depth ? work.stream * schedule.depth + work.number % schedule.by_depth : std::uint32_t(w);
    store(to + 16, U4{packet, std::uint32_t(work.number), std::uint32_t(work.stream),
                      std::uint32_t(work.head / schedule.by_group)});
  };
  // What TMA does not bring, by a warp: two tokens and four channels a lane.
  struct Rest {
    std::uint32_t beta[2], A_log;  // bits
    U4 bias;                       // f32
  };
  const auto load_rest = [&](Smem record) {
    const U4 work = load_u32x4(record);
    Rest rest{};
    if (work.w == 0) return rest;
    const std::int64_t head = work.x;
    const std::int64_t first =
        work.y * call.beta.batch + (std::int64_t(work.z) + lane) * call.beta.token + head * call.beta.head;
    if (lane < work.w) rest.beta[0] = element_bits(call.beta.data, call.beta.dtype, first);
    if (lane + 32 < work.w)
      rest.beta[1] = element_bits(call.beta.data, call.beta.dtype, first + 32 * call.beta.token);
    if (call.A_log.data) rest.A_log = element_bits(call.A_log.data, call.A_log.dtype, head * call.A_log.head);
    if (4 * lane >= std::uint32_t(call.K)) return rest;
    if (p.bias_rows) {
      rest.bias = *reinterpret_cast<const U4*>(static_cast<const float*>(call.dt_bias.data) +
                                               head * call.dt_bias.head + 4 * lane);
    } else if (call.dt_bias.data) {
      rarely();
      std::uint32_t bits[4];
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)
        bits[i] =
            f32_bits(element(element_bits(call.dt_bias.data, call.dt_bias.dtype,
                                          head * call.dt_bias.head + (4 * lane + i) * call.dt_bias.channel),
                             call.dt_bias.dtype));
      rest.bias = U4{bits[0], bits[1], bits[2], bits[3]};
    }
    return rest;
  };
  const auto store_rest = [&](Smem at, std::uint32_t turn, Rest rest) {
    const std::uint32_t rows = load_u32(record_of(at, turn) + 12);
    bool strong = false, weak = true;
#pragma unroll 1
    for (std::uint32_t token = lane; token < kChunk; token += 32) {
      const float beta = token < rows ? beta_of(call, element(rest.beta[0], call.beta.dtype)) : 0.0f;
      const float size = bits_f32(magnitude_bits(beta));
      strong |= !(size <= kStrongestBeta);  // NaN too
      weak &= !(size >= kWeakestBeta);
      store(at + Prep::beta + 256 * turn + 4 * token, beta);
      rest.beta[0] = rest.beta[1];
    }
    const bool odd = any(strong) || !any(!weak);
    const Gates gates = gates_of(
        call, element(rest.A_log, call.A_log.dtype),
        F4{bits_f32(rest.bias.x), bits_f32(rest.bias.y), bits_f32(rest.bias.z), bits_f32(rest.bias.w)});
    store(at + Prep::gates + 16 * lane, gates.offset);
    if (lane == 0) {
      store(at + Prep::gates + 512, F2{gates.slope, gates.rate});
      store(at + Prep::gates + 520, odd ? kOdd : 0u);
    }
    mbar_arrive(at + Prep::bar_g);
  };
  const auto load_g = [&](Smem at, std::uint32_t turn) {
    const U4 work = load_u32x4(record_of(at, turn));
    if (work.w == 0 || p.gate_f32) {
      mbar_arrive(at + Prep::bar_g);
      return;
    }
    mbar_expect(at + Prep::bar_g, 2 * kTile);
#pragma unroll
    for (int h = 0; h < 2; ++h)
      tma_load(at + Prep::g + h * kTile, &p.g, at + Prep::bar_g, 64 * h, work.x, work.z, work.y);
  };
  // A quarter of q and k, by one thread of each of four warps: half h of block b.
  const auto load_qk = [&](Smem at, std::uint32_t turn, int b, int h) {
    const U4 work = load_u32x4(record_of(at, turn));
    if (work.w == 0) return;
    const int head = load_u32(record_of(at, turn) + 28);
    const Smem to = at + Prep::raw + b * 16384 + h * kTile;
    mbar_expect(at + Prep::bar_qk, kTile);
    tma_load(to + b * 4096, &p.q, at + Prep::bar_qk, 64 * h, head, work.z + 32 * b, work.y);
    tma_load(to + (1 - b) * 4096, &p.k, at + Prep::bar_qk, 64 * h, head, work.z + 32 * b, work.y);
  };

  // The first three works, a warp each.
  if (warp < 3) {
    const std::int32_t w = worker + static_cast<std::int32_t>(warp) * workers;
    const Smem at = smem + (warp & 1) * Prep::bytes;
    if (lane == 0) announce(w, planned_at(schedule, w, works), record_of(at, warp >> 1));
    warp_sync();
    if (warp < 2) {
      if (lane == 0) load_g(at, 0);
      if (lane < 4) load_qk(at, 0, lane >> 1, lane & 1);
      warp_sync();
      store_rest(at, 0, load_rest(record_of(at, 0)));
    }
  }
  std::int32_t w = worker + 3 * workers;  // the next work that is not announced yet, of the finding thread
  if (finds && schedule.claim) w = fetch_add(schedule.claim, 1);
  warp_sync();  // barriers want whole warps
  barrier_arrive(Barrier::first_found, Prep::threads + 32);
  barrier(Barrier::first_noted, Prep::threads + 32);

  probe.begin();
  std::uint32_t n = 0;
  for (;; ++n) {
    const std::uint32_t turn = (n >> 1) & 1;
    const Smem at = smem + (n & 1) * Prep::bytes, other = smem + (~n & 1) * Prep::bytes;
    if (load_u32(record_of(at, turn) + 12) == 0) break;
    barrier(Barrier::scaled + (n & 1), 2 * Prep::threads);
    fence_async_shared();
    probe.mark(8);

    // 4, 5. kept(lane): addresses are computed again for every work; over the loop they would take registers
    // that it has not.
    PlannedWork seen{};  // a look at memory that is used later
    if (finds) seen = planned_at(schedule, w, works);
    const std::uint32_t block = 2 * wg + (w4 & 1);  // of 16 rows
    const Smem betas = at + Prep::beta + 256 * turn + 4 * (16 * block + (kept(lane) >> 2));
    const F2 beta{load_f32(betas), load_f32(betas + 32)};
    const float unit = load_f32(at + Packet::unit);  // 2^w of range.cuh
    const auto paired = [&] {
      probe.mark(0);
      barrier(Barrier::folding, Prep::threads);  // nobody reads raw, g and k0 any more
      probe.mark(1);
    };
    if (const Way way = way_of(votes_of(at)); way == Way::exact) {
      paired();
    } else {  // one code for both warpgroups, for the instruction cache
      float before[16], own[16];
      if (wg == 0) {
        prep_pairs<32>(at + Prep::raw, at + Prep::k0, way == Way::steep, own);
#pragma unroll
        for (int i = 0; i < 16; ++i) before[i] = 0;
      } else {
        float d[32];
        prep_pairs<64>(at + Prep::raw + 16384, at + Prep::g, way == Way::steep, d);
#pragma unroll
        for (int i = 0; i < 16; ++i) before[i] = d[i], own[i] = d[i + 16];
      }
      paired();
      if (solves)
        prep_rows(at, beta, own, before, block, kept(lane));
      else
        prep_mask(own, block, kept(lane));
      store_rows(at + (solves ? Prep::l : Prep::m), own, before, block, kept(lane));
    }
    warp_sync();
    probe.mark(9);

    // 5. Warps with rows of L solve; the others prepare what comes, a part for each warp: one alone is slow.
    Rest rest{};
    if (solves) {
      std::uint32_t inverse[4];
      const F2 of_columns{beta.x * unit, beta.y * unit};
      prep_invert(at, of_columns, block, kept(lane), inverse);
      probe.mark(2);
      barrier(Barrier::inverted, 128);
      prep_below(at, of_columns, block, kept(lane), inverse);
      probe.mark(3);
    } else {
      if (wg == 0) barrier_arrive(Barrier::m_stored, 192);
      zero_below(at, 64 * wg + 32 * (w4 & 1) + kept(lane));
      if (wg == 0) zero_below(at, 128 + 32 * w4 + kept(lane));
      if (warp == asking) {
        if (elected()) {
          fence_async_shared();
          load_g(at, turn ^ 1);
        }
      } else if (warp == resting) {
        rest = load_rest(record_of(at, turn ^ 1));  // in flight until 6
      } else if (finds) {
        announce(w, seen, record_of(other, ((n + 3) >> 1) & 1));
        w = schedule.claim ? std::int32_t(fetch_add(schedule.claim, 1)) : w + workers;
      }
      warp_sync();
    }

    // 6
    float d[64];
    if (wg == 0) {
      barrier_arrive(Barrier::f0_solved, Prep::threads);
      barrier(Barrier::folding, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_keys(at, d, probe, [&] {
        if (elected()) load_qk(at, turn ^ 1, w4 >> 1, w4 & 1);
        warp_sync();
        if (warp == resting) store_rest(at, turn ^ 1, rest);
      });
    } else {
      std::uint32_t q[32], m[16];
      const Smem from = fragment_a(at + Packet::qh, 16 * w4, kept(lane)),
                 from_m = fragment_a(at + Prep::m, 16 * w4, kept(lane));
#pragma unroll
      for (int j = 0; j < 8; ++j) ldmatrix(q + 4 * j, (from ^ ((j & 3) << 5)) + (j >> 2) * kTile);
      barrier(Barrier::m_stored, 192);
#pragma unroll
      for (int j = 0; j < 4; ++j) ldmatrix(m + 4 * j, from_m ^ (j << 5));
      probe.mark(10);
      barrier_arrive(Barrier::folding, Prep::threads);
      barrier(Barrier::f0_solved, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_queries(at, w4, kept(lane), m, q, unit, d, probe);
    }
    store_operator(at + (wg == 0 ? Packet::kr : Packet::qh), w4, kept(lane), d);

    probe.mark(13);
    warp_sync();
    barrier_arrive(Barrier::folded + (n & 1), Prep::threads + 32);
    probe.mark(14);
  }
  probe.end(p.probe ? p.probe + ((p.state_blocks + worker) * 4 + 2 + wg) * 16 : nullptr);
}

/// Step 7, one warp: a packet after the other, from its place to where the state reads it.
FLA_DEVICE void prep_carry(const Params& p, Smem smem, std::uint32_t lane) {
  const Schedule& schedule = p.schedule;
  Patience patience;
  barrier(Barrier::first_found, Prep::threads + 32);
  U4 next{};
  std::uint32_t rows = load_u32(record_of(smem, 0) + 12);
  if (rows != 0) next = load_u32x4(record_of(smem, 0) + 16);
  barrier_arrive(Barrier::first_noted, Prep::threads + 32);
  for (std::uint32_t n = 0; rows != 0; ++n) {
    const U4 to = next;
    const Smem at = smem + (n & 1) * Prep::bytes;
    if (schedule.taken && lane == 0) {
      wait_at_least(schedule.taken + to.z * kTakenApart, to.y - schedule.depth + 1, patience);
      fence_async_global();
    }
    warp_sync();
    barrier(Barrier::folded + (n & 1), Prep::threads + 32);
    // Before this place is free: then the record may be written over.
    const Smem record = record_of(smem + (~n & 1) * Prep::bytes, ((n + 1) >> 1) & 1);
    rows = load_u32(record + 12);
    if (rows != 0) next = load_u32x4(record + 16);
    if (lane == 0) {
      fence_async_shared();
      std::uint8_t* const packet = schedule.packets + std::uint64_t(to.x) * Packet::bytes;
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)  // in pieces: loads come between
        bulk_store(packet + i * 2 * kTile, at + Prep::packet + i * 2 * kTile,
                   i < 3 ? 2 * kTile : Packet::end - 6 * kTile);
      bulk_commit();
      bulk_wait_read();
    }
    warp_sync();  // all lanes know the next record
    if (lane == 0) {
      mbar_arrive(at + Prep::bar_left);
      if (schedule.ready) {
        bulk_wait();
        fence_async_global();
        store_release(schedule.ready + to.x * kReadyApart, to.y + 1);
      }
    }
  }
}

/// All of prep: a CTA of 640 threads takes works `worker`, worker + workers, … or, beside the state, what
/// nobody has.
template <Half16 type>
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
    prefetch(&p.g);
    prefetch(&p.q);
    prefetch(&p.k);
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
  fence_async_shared();
  barrier(Barrier::cta, 2 * Prep::threads + 128);
  const std::uint32_t warp = uniform(tid >> 5), lane = kept(tid & 31);
  if (warp < 8) {
    registers_up<112>();
    if (p.call.gate == Gate::bounded)
      prep_scale<type, Gate::bounded>(p, smem, tid, worker);
    else if (p.call.gate == Gate::softplus)
      prep_scale<type, Gate::softplus>(p, smem, tid, worker);
    else
      prep_scale<type, Gate::given>(p, smem, tid, worker);
  } else if (warp < 16) {
    registers_up<112>();
    prep_fold(p, smem, warp - 8, lane, worker, workers);
  } else {
    registers_down<24>();
    if (warp == 16) prep_carry(p, smem, lane);
  }
}

}  // namespace fla::flash_kda
