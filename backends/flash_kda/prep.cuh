#pragma once

#include "backends/flash_kda/gates.cuh"
#include "backends/flash_kda/probe.cuh"
#include "backends/flash_kda/work.cuh"

/// Prep: the operators of a chunk of one head, as a packet (layout.cuh). A CTA of 512 threads goes from one
/// work to the next, in two places of shared memory in turn: while warps 8 to 15 fold work n in one place,
/// warps 0 to 7 scale work n + 1 in the other, and the inputs of n + 2 come as soon as there is room.
///
/// Notation. a_i: decay of token i, a vector over channels. D(x -> y): the product of the decays between.
///   M_ij = 16 scale q_i (D(j -> i) k_j), i >= j      L_ij = beta_i k_i (D(j -> i) k_j), i > j
///   T = (I + L)^-1                                   T2 = T diag(beta)
///   Q~_i = 16 scale q_i D(start -> i)                K~_i = k_i D(start -> i)      Kr_i = k_i D(i -> end)
///   packet: Kt = K~   B = M T2 / 16   Qh = Q~ - M T2 K~   Kr = T2^T Kr
///
///   step         who                                       from -> to (shared memory unless said)
///   1  loads     threads of the folding warps: TMA, boxes  g -> g;  q, k -> raw: [q0 k0] [q1 k1], 32-token
///                of 32 x 64                                blocks of two halves each
///   scale: warps 0 to 7
///   2  gates     warp: 8 tokens, lane: 4 channels          g -> a (registers); products over the 8 -> run
///      norms     warp: 16 tokens of q or of k, by mma      raw -> diagonal of X X^T -> factor
///      ------------ barrier; how, by vote: gentle where no run of 8 decays by more than 2^-2, exact where
///      one
///                   does by more than 2^-59, or else steep
///   3  copies    as gates; scales: running products of a   raw -> in place q, k D(mid -> i) (steep: bf16,
///   for
///                                                          the range; gentle: f16, for slow gates' errors
///                                                          add up)
///                mid: after 16 tokens of a block           k D(i -> mid_1) -> g;
///                                                          k D(i -> mid_0) -> packet.b;
///                                                          Q~, K~, Kr (f16) -> packet
///   fold: warps 8 to 15, warpgroups F0 and F1
///   4  pairs     F0: [q0; k0] x k of block 0               raw, packet.b -> wgmma -> registers
///                F1: [q1; k1] x k of both blocks           raw, g -> wgmma -> registers
///      ------------ barrier
///   5  epilogue  the same, masked                          M, L (f16) -> raw; L's diagonal 16 x 16 (f32) ->
///                                                          run, factor
///      ------------ barrier
///   6  solve     F0: a lane a column of 16 x 16, then      L -> T^T (f16) -> raw; T2^T (f16) -> packet.b
///                merges 16 -> 32 -> 64 by mma
///      F0        warp 3: beta and gate parameters of n + 2 (memory), in flight until 7
///      F1        M, Q~                                     raw, packet.qh -> registers
///                warp 0: where n + 3 is.  Threads: g of n + 2; is there room for the packet; the one before
///                has left, and may be read by others
///      ------------ barrier: raw is free
///   7  folds     F0: T2^T Kr                               packet -> wgmma -> packet.kr
///                F1: M T2, then Q~ - M T2 K~               packet -> wgmma -> packet.b, packet.qh
///      F0        a thread a warp: q, k of n + 2
///      ------------ barrier
///   8  out       a thread: bulk copies                     packet -> memory or L2
///
///   exact: instead of 3 to 5, by the scaling warps, D(j -> i) by running products down the rows, all in f32;
///   about five times the time.
///   heads of 64 channels: TMA brings zeros for the others, and nothing decays there.
namespace fla::flash_kda {

struct Prep {
  static constexpr std::uint32_t threads = 256;  // that scale, and as many that fold
  static constexpr std::uint32_t packet = 0;
  static constexpr std::uint32_t raw = 57 * 1024;
  static constexpr std::uint32_t g = raw + 32768;
  // block 0's columns for its own rows: 2 halves x 32 rows
  static constexpr std::uint32_t k0 = packet + Packet::b;
  // after the pairs
  static constexpr std::uint32_t m = raw, l = raw + kTile, tt = raw + 2 * kTile, t2t = packet + Packet::b;
  static constexpr std::uint32_t run = g + 16384;      // f32 [8 runs of 8 tokens][128]: products of decays
  static constexpr std::uint32_t factor = run + 4096;  // f32 [64][2]: of q (with 16 scale), of k
  // after the copies: 16 x 16 blocks, column by column, without bank conflicts for who reads two at once
  static constexpr std::uint32_t diagonal = run, diagonal_block = 1024 + 64;
  static constexpr std::uint32_t beta = factor + 512;  // f32 [2][64], in turn
  static constexpr std::uint32_t bias = beta + 512;    // f32 [128], of the gates; then A_log
  static constexpr std::uint32_t vote = bias + 528;    // u32 [8], one a warp
  // 2 x u32 [8], in turn: head, batch, token, rows, packet, number, stream, head of q and k
  static constexpr std::uint32_t record = vote + 32;
  // of the first place. u32 [2]: the packet stored, its number
  static constexpr std::uint32_t stored = record + 64;
  static constexpr std::uint32_t room = stored + 8;
  static constexpr std::uint32_t bar_g = room + 8, bar_qk = bar_g + 8, bar_left = bar_g + 16;
  static constexpr std::uint32_t ticks = bar_g + 24;  // probe builds: u32 [2][16]
  static constexpr std::uint32_t end = ticks + 128;
  static constexpr std::uint32_t bytes = (end + 1023) / 1024 * 1024;
};
static_assert(4 * Prep::diagonal_block <= 4096 + 512);
static_assert(Prep::raw % 1024 == 0 && Prep::raw >= Packet::bytes && 2 * Prep::bytes + 1024 <= 232448);

template <Half16 type>
FLA_DEVICE F2 unpack(std::uint32_t x) {
  if constexpr (type == Half16::bf16) return unpack_bf16(x);
  return unpack_f16(x);
}
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

/// Where rows 4 n to 4 n + 3 of a column of a diagonal block are.
FLA_DEVICE std::uint32_t in_diagonal(std::uint32_t block, std::uint32_t column, std::uint32_t n) {
  return block * Prep::diagonal_block + column * 64 + ((n ^ ((column >> 1) & 3)) << 4);
}

/// How a work is scaled, by what a run of 8 tokens decays at most: every warp's vote.
enum class Way : std::uint32_t { gentle, steep, exact };
FLA_DEVICE Way way_of(Smem at) {
  const U4 x = load_u32x4(at + Prep::vote), y = load_u32x4(at + Prep::vote + 16);
  const std::uint32_t votes = uniform(x.x | x.y | x.z | x.w | y.x | y.y | y.z | y.w);
  return votes > 1 ? Way::exact : Way(votes);
}

/// The chunk's tile rows of a thread: token 8 warp + j is at row_of(x0, j) in a 64-row tile at offset 0.
FLA_DEVICE Smem row_of(Smem x0, int j) { return (x0 ^ (j << 4)) + j * 128; }

/// Step 3 for the thread's 8 tokens x 4 channels; one code for both blocks, for the instruction cache. With D
/// from one place to another the product of the decays between:
///   forward   x = D from mid to i; q x, k x in place; times D from the start to mid they are Q~, K~ (it may
///   be subnormal:
///             harmless)
///   backward  y = D from i to the end of its 8, then times D from there to the chunk's end -> Kr, to mid_1
///   -> g, and in block 0
///             to mid_0 -> packet.b (one chain through mid_0 would lose D from mid_0 to mid_1, which can be
///             below 2^-149 while its products matter)
template <Half16 type, Half16 pairs>
FLA_DEVICE void prep_copies(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane,
                            const float (&a)[8][4]) {
  const std::uint32_t block = warp >> 2, w4 = warp & 3;
  const std::uint32_t q_rows = Prep::raw + block * (16384 - 4096);  // k rows 4096 further
  const Smem run = smem + Prep::run + lane * 16;
  float mid[4], to_mid1[4], to_end[4], x[4], to_mid[4];
  {
    float own[4], neighbour[4] = {1, 1, 1, 1}, near[4] = {1, 1, 1, 1}, pair[4][4];
    load4(run + warp * 512, own);
    if (w4 == 0 || w4 == 3) load4(run + (warp ^ 1) * 512, neighbour);
    if ((warp & 1) == 0) load4(run + (warp + 1) * 512, near);  // to the end of the 16
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
      const float r = rcp(own[c] * neighbour[c]);
      x[c] = w4 < 2 ? r : neighbour[c];
      to_mid[c] = w4 < 2 ? neighbour[c] : r;
      mid[c] = pair[0][c];
      if (block == 0) {
        to_mid1[c] = near[c] * pair[2][c];
        if (w4 < 2) to_mid1[c] *= pair[1][c];
        to_end[c] = to_mid1[c] * pair[3][c];
      } else {
        mid[c] *= pair[1][c] * pair[2][c];
        to_mid1[c] = to_mid[c];
        to_end[c] = near[c];
        if (w4 < 2) to_end[c] *= pair[3][c];
      }
    }
    if (warp == 7)
      store(smem + Prep::packet + Packet::gamma + lane * 16,
            F4{mid[0] * pair[3][0], mid[1] * pair[3][1], mid[2] * pair[3][2], mid[3] * pair[3][3]});
  }
  float k[8][4];
  {
    const Smem factor = smem + Prep::factor + warp * 64;
    // Loads go a token ahead: they cannot pass stores whose addresses the compiler cannot compare.
    U2 q_raw[8], k_raw[8];
    F2 f[8];  // of q, of k
    const auto fetch = [&](int j) {
      if (j >= 8) return;
      f[j] = load_f32x2(factor + 8 * j);
      q_raw[j] = load_u32x2(row_of(x0, j) + q_rows);
      k_raw[j] = load_u32x2(row_of(x0, j) + q_rows + 4096);
    };
    fetch(0);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
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
      store_pairs<pairs>(at + q_rows, q);
      store_pairs<pairs>(at + q_rows + 4096, km);
      store_f16(at + Packet::qh, q, mid);
      store_f16(at + Packet::kt, km, mid);
    }
  }
  const std::uint32_t to_k0 = Prep::k0 - (lane >> 4) * 4096;
  float y[4] = {1, 1, 1, 1};
#pragma unroll
  for (int j = 7; j >= 0; --j) {
    const Smem at = row_of(x0, j);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (j < 7) {
        y[c] = j == 6 ? a[7][c] : y[c] * a[j + 1][c];
        k[j][c] *= y[c];
      }
    }
    store_f16(at + Packet::kr, k[j], to_end);
    store_pairs<pairs>(at + Prep::g, k[j], to_mid1);
    if (block == 0) store_pairs<pairs>(at + to_k0, k[j], to_mid);
  }
}

/// The 16 x 16 blocks of T2^T below the diagonal, and of T^T those that the merges read: 32 threads a block.
FLA_DEVICE void zero_below(Smem smem, std::uint32_t tid) {
  const std::uint32_t i = tid >> 5;  // T2^T: (1,0) (2,0) (2,1) (3,0) (3,1) (3,2); T^T: (1,0) (3,2)
  const std::uint32_t row = i < 6 ? (0x333221u >> (4 * i)) & 15 : 2 * i - 11,
                      column = i < 6 ? (0x210100u >> (4 * i)) & 15 : 2 * i - 12;
  store(smem + (i < 6 ? Prep::t2t : Prep::tt) +
            swizzled(16 * row + ((tid >> 1) & 15), 32 * column + 16 * (tid & 1)),
        U4{0, 0, 0, 0});
}

/// Exact pairs: M and L by products of decays alone, thread = column j and a quarter of the channels, rows
/// one after the other. Decays stand in the packet's first 32 KB meanwhile; M and L arise in g.
template <Half16 type>
FLA_DEVICE void exact_pairs(Smem smem, std::uint32_t tid, std::uint32_t warp, std::uint32_t lane,
                            float (&a)[8][4], Smem beta, std::uint32_t team) {
  const Smem decay = smem + Prep::packet, m = smem + Prep::g, l = m + kTile, diagonal = smem + Packet::b;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    store(decay + (8 * warp + j) * 512 + lane * 16, F4{a[j][0], a[j][1], a[j][2], a[j][3]});
#pragma unroll
  for (int i = 0; i < 4; ++i) store(m + tid * 16 + i * 4096, U4{0, 0, 0, 0});
  store(diagonal + tid * 16, U4{0, 0, 0, 0});
  if (tid < 4 * Prep::diagonal_block / 16 - 256) store(diagonal + 4096 + tid * 16, U4{0, 0, 0, 0});
  barrier(team, Prep::threads);

  const std::uint32_t j = tid >> 2, part = tid & 3;
  // Channels 16 n + 4 part + {0 … 3}, n = 0 … 7; of token i at q_at(i, n), k 4096 further.
  const auto q_at = [&](std::uint32_t i, std::uint32_t n) {
    return smem + Prep::raw + (i >> 5) * 16384 + (n >> 2) * kTile + swizzled(i & 31, (n & 3) * 32 + part * 8);
  };
  float w[8][4];
  {
    const float f = load_f32(smem + Prep::factor + 8 * j + 4);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      unpack4<type>(load_u32x2(q_at(j, n) + 4096), w[n]);
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
      unpack4<type>(load_u32x2(q_at(i, n)), q);
      unpack4<type>(load_u32x2(q_at(i, n) + 4096), k);
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
    const float x = dot_q * f.x, z = dot_k * f.y * load_f32(beta + 4 * i);
    if (part == 0 && i >= j) store(m + swizzled(i, 2 * j), static_cast<std::uint16_t>(pack_f16(x, 0)));
    if (part == 1 && i > j) store(l + swizzled(i, 2 * j), static_cast<std::uint16_t>(pack_f16(z, 0)));
    if (part == 2 && i > j && (i >> 4) == (j >> 4))
      store(diagonal + in_diagonal(i >> 4, j & 15, (i & 15) >> 2) + (i & 3) * 4, z);
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) load4(decay + (8 * warp + r) * 512 + lane * 16, a[r]);
  barrier(team, Prep::threads);
}

/// Q~, K~, Kr without a reference: every exponent is that of a decay.
template <Half16 type>
FLA_DEVICE void exact_copies(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane,
                             const float (&a)[8][4]) {
  const std::uint32_t q_rows = Prep::raw + (warp >> 2) * (16384 - 4096);
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
    unpack4<type>(load_u32x2(at + q_rows), q);
    unpack4<type>(load_u32x2(at + q_rows + 4096), k);
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
    unpack4<type>(load_u32x2(at + q_rows + 4096), k);
#pragma unroll
    for (int c = 0; c < 4; ++c) k[c] *= fk;
    store_f16(at + Packet::kr, k, y);
#pragma unroll
    for (int c = 0; c < 4; ++c) y[c] *= a[j][c];
  }
}

/// M and L from where exact_pairs put them to where the solve wants them; T^T and T2^T are zeroed.
FLA_DEVICE void exact_move(Smem smem, std::uint32_t tid, std::uint32_t team) {
  barrier(team, Prep::threads);  // raw q, k and the runs are read
#pragma unroll
  for (int i = 0; i < 4; ++i)
    store(smem + Prep::m + tid * 16 + i * 4096, load_u32x4(smem + Prep::g + tid * 16 + i * 4096));
  for (std::uint32_t i = 16 * tid; i < 4 * Prep::diagonal_block; i += 16 * Prep::threads)
    store(smem + Prep::diagonal + i, load_u32x4(smem + Packet::b + i));
  barrier(team, Prep::threads);
  zero_below(smem, tid);
}

/// Steps 4 and 5 of one warpgroup, one code for both blocks. Rows 0-31 of the accumulators are q tokens,
/// 32-63 k tokens of its block; columns 32-63 of block 0 are of no meaning, and masked or never read.
FLA_DEVICE void prep_pairs(Smem smem, Smem beta, bool steep, std::uint32_t wg, std::uint32_t w4,
                           std::uint32_t lane, std::uint32_t team, Probe& probe) {
  float d[32];
  const std::uint64_t da = k_major(smem + Prep::raw + wg * 16384);
  const std::uint64_t db = k_major(smem + (wg == 0 ? Prep::k0 : Prep::g));
  const std::uint64_t half = (wg == 0 ? kTile / 2 : kTile) >> 4;
  const auto multiply = [&]<Half16 pairs> {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 8; ++kk)
      wgmma_ss<64, pairs, 0>(d, da + k_step(kk), db + k_step(kk & 3) + (kk >> 2) * half, kk > 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(d);
  };
  if (steep)
    multiply.template operator()<Half16::bf16>();
  else
    multiply.template operator()<Half16::f16>();
  probe.mark(0);
  barrier(team, Prep::threads);  // nobody reads the raw area any more
  probe.mark(1);

  zero_below(smem, 128 * wg + 32 * w4 + lane);
  const std::uint32_t g = lane >> 2, t = lane & 3;
  const std::uint32_t row = 32 * wg + 16 * (w4 & 1);  // first token of the warp's 16 rows
  if (w4 < 2) {
    const Smem at = fragment_a(smem + Prep::m, row, lane);
    const int limit =
        int(row + g) - int(2 * t);  // column 8 n + 2 t + e stays if 8 n + e <= limit (+ 8 in the lower half)
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      std::uint32_t r[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int j = 8 * (n + (i >> 1)) - 8 * (i & 1);
        r[i] = pack_f16(j <= limit ? d[4 * n + 2 * i] : 0.0f,
                        j + 1 <= limit ? d[4 * n + 2 * i + 1] : 0.0f);  // may be Inf, NaN
      }
      stmatrix(at ^ (n << 4), r[0], r[1], r[2], r[3]);
    }
  } else {
    const float b0 = load_f32(beta + 4 * (row + g)), b1 = load_f32(beta + 4 * (row + g + 8));
    const Smem at = fragment_a(smem + Prep::l, row, lane);
#pragma unroll
    for (int n = 0; n < 8; ++n) d[4 * n] *= b0, d[4 * n + 1] *= b0, d[4 * n + 2] *= b1, d[4 * n + 3] *= b1;
      // Only blocks strictly below the diagonal are ever read from this tile: no mask.
#pragma unroll
    for (int n = 0; n < 8; n += 2)
      stmatrix(at ^ (n << 4), pack_f16(d[4 * n], d[4 * n + 1]), pack_f16(d[4 * n + 2], d[4 * n + 3]),
               pack_f16(d[4 * n + 4], d[4 * n + 5]), pack_f16(d[4 * n + 6], d[4 * n + 7]));
    // The diagonal block in f32, column-major; only rows > column are read.
    const Smem to = smem + Prep::diagonal + in_diagonal(row >> 4, 2 * t, g >> 2) + (g & 3) * 4;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at_0 = 4 * n + i;
        const float x = w4 == 2 ? d[at_0] : d[at_0 + 8], y = w4 == 2 ? d[at_0 + 16] : d[at_0 + 24];
        store((to ^ ((i >> 1) << 5)) + (8 * n + (i & 1)) * 64, wg == 0 ? x : y);
      }
  }
}

/// Barriers at which B waits until T2 has been read, whose place it takes; at which the storing warp waits
/// for the others' parts of the solve; and of two warps that share a block of 32.
inline constexpr std::uint32_t kFolded = 6, kLate = 7;
FLA_DEVICE std::uint32_t pair_of(std::uint32_t wg) { return 10 + wg; }

/// Step 6, a warp a block of 16 x 16: (I + L) T = I, two lanes a column, of which each stores a half.
FLA_DEVICE void prep_invert(Smem smem, Smem betas, std::uint32_t block, std::uint32_t lane) {
  const std::uint32_t c = lane & 15, h = lane >> 4;
  float s[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i] = std::uint32_t(i) == c ? 1.0f : 0.0f;
#pragma unroll
  for (int j = 0; j < 15; ++j)
#pragma unroll
    for (int q = (j + 1) / 4; q < 4; ++q) {
      float v[4];
      load4(smem + Prep::diagonal + in_diagonal(block, j, q), v);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (4 * q + e > j) s[4 * q + e] = fma_of(-v[e], s[j], s[4 * q + e]);
    }
  const std::uint32_t row = 16 * block + c, at = swizzled(row, 32 * block + 16 * h);
  const float beta = load_f32(betas + 4 * row);
  std::uint32_t x[4], y[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float lo = h == 0 ? s[2 * i] : s[2 * i + 8], hi = h == 0 ? s[2 * i + 1] : s[2 * i + 9];
    x[i] = pack_f16(lo, hi);
    y[i] = pack_f16(beta * lo, beta * hi);
  }
  store(smem + Prep::tt + at, U4{x[0], x[1], x[2], x[3]});
  store(smem + Prep::t2t + at, U4{y[0], y[1], y[2], y[3]});
}
/// 16 -> 32, a warp for the block's half: T21^T = -(T11^T L21^T) T22^T.
FLA_DEVICE void prep_merge(Smem smem, Smem betas, std::uint32_t half, std::uint32_t lane) {
  const Smem tt = smem + Prep::tt, t2t = smem + Prep::t2t, l = smem + Prep::l;
  const std::uint32_t g = lane >> 2, o = 32 * half;
  std::uint32_t fa[4], fb[4], fc[4];
  ldmatrix(fa, fragment_a(tt, o, lane) ^ (2 * o));
  ldmatrix(fb, fragment_b(l, o + 16, lane) ^ (2 * o));
  ldmatrix_trans(fc, fragment_a(tt, o + 16, lane) ^ (2 * (o + 16)));
  float x0[4] = {0, 0, 0, 0}, x1[4] = {0, 0, 0, 0};
  mma<Half16::f16>(x0, fa, fb[0], fb[1]);
  mma<Half16::f16>(x1, fa, fb[2], fb[3]);
  const std::uint32_t fx[4] = {pack_f16(x0[0], x0[1]), pack_f16(x0[2], x0[3]), pack_f16(x1[0], x1[1]),
                               pack_f16(x1[2], x1[3])};
  float y0[4] = {0, 0, 0, 0}, y1[4] = {0, 0, 0, 0};
  mma<Half16::f16>(y0, fx, fc[0], fc[1]);
  mma<Half16::f16>(y1, fx, fc[2], fc[3]);
  stmatrix(fragment_a(tt, o, lane) ^ (2 * (o + 16)), pack_f16(-y0[0], -y0[1]), pack_f16(-y0[2], -y0[3]),
           pack_f16(-y1[0], -y1[1]), pack_f16(-y1[2], -y1[3]));
  const float b0 = -load_f32(betas + 4 * (o + g)), b1 = -load_f32(betas + 4 * (o + g + 8));
  stmatrix(fragment_a(t2t, o, lane) ^ (2 * (o + 16)), pack_f16(b0 * y0[0], b0 * y0[1]),
           pack_f16(b1 * y0[2], b1 * y0[3]), pack_f16(b0 * y1[0], b0 * y1[1]),
           pack_f16(b1 * y1[2], b1 * y1[3]));
}
/// 32 -> 64, four warps.
FLA_DEVICE void prep_finish(Smem smem, Smem betas, std::uint32_t warp, std::uint32_t lane) {
  const Smem tt = smem + Prep::tt, t2t = smem + Prep::t2t, l = smem + Prep::l;
  const std::uint32_t g = lane >> 2;
  // warp = 16 columns c of T21 x 16 rows r.
  const std::uint32_t cb = 16 * (warp & 1), rb = 16 * (warp >> 1);
  std::uint32_t fa[2][4], fb[2][2][4], fc[2][4];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    ldmatrix(fa[k], fragment_a(tt, cb, lane) ^ (32 * k));
#pragma unroll
    for (int r = 0; r < 2; ++r) ldmatrix(fb[r][k], fragment_b(l, 32 + 16 * r, lane) ^ (32 * k));
    ldmatrix_trans(fc[k], fragment_a(tt, 32 + 16 * k, lane) ^ (2 * (32 + rb)));
  }
  float x[4][4];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
#pragma unroll
    for (int k = 0; k < 2; ++k)
      mma<Half16::f16>(x[n], fa[k], fb[n >> 1][k][2 * (n & 1)], fb[n >> 1][k][2 * (n & 1) + 1]);
  }
  float y[2][4];
#pragma unroll
  for (int n = 0; n < 2; ++n) y[n][0] = y[n][1] = y[n][2] = y[n][3] = 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const std::uint32_t fx[4] = {pack_f16(x[2 * k][0], x[2 * k][1]), pack_f16(x[2 * k][2], x[2 * k][3]),
                                 pack_f16(x[2 * k + 1][0], x[2 * k + 1][1]),
                                 pack_f16(x[2 * k + 1][2], x[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < 2; ++n) mma<Half16::f16>(y[n], fx, fc[k][2 * n], fc[k][2 * n + 1]);
  }
  const float b0 = -load_f32(betas + 4 * (cb + g)), b1 = -load_f32(betas + 4 * (cb + g + 8));
  stmatrix(fragment_a(t2t, cb, lane) ^ (2 * (32 + rb)), pack_f16(b0 * y[0][0], b0 * y[0][1]),
           pack_f16(b1 * y[0][2], b1 * y[0][3]), pack_f16(b0 * y[1][0], b0 * y[1][1]),
           pack_f16(b1 * y[1][2], b1 * y[1][3]));
}

/// Step 7, warpgroup 0: T2^T Kr over Kr. meanwhile(): while the products are on their way; then the other
/// warpgroup may write over T2.
template <class Meanwhile>
FLA_DEVICE void prep_fold_keys(Smem smem, std::uint32_t w4, std::uint32_t lane, std::uint32_t group,
                               Probe& probe, Meanwhile&& meanwhile) {
  float d[64];
  const std::uint64_t da = k_major(smem + Prep::t2t), db = mn_major(smem + Packet::kr);
  wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) wgmma_ss<128, Half16::f16, 1>(d, da + k_step(kk), db + mn_step(kk), kk > 0);
  wgmma_commit();
  meanwhile();
  wgmma_wait<0>();
  keep(d);
  probe.mark(5);
  barrier_arrive(kFolded, Prep::threads);
  barrier(group, 128);  // all four warps have read Kr
  probe.mark(6);
  const Smem at = fragment_a(smem + Packet::kr, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    stmatrix((at ^ ((j & 3) << 5)) + (j >> 2) * kTile, pack_f16(d[8 * j], d[8 * j + 1]),
             pack_f16(d[8 * j + 2], d[8 * j + 3]), pack_f16(d[8 * j + 4], d[8 * j + 5]),
             pack_f16(d[8 * j + 6], d[8 * j + 7]));
}

/// Step 7, warpgroup 1: B = M T2, then Q~ - B K~ over Q~ (given in m and q).
FLA_DEVICE void prep_fold_queries(Smem smem, std::uint32_t w4, std::uint32_t lane, std::uint32_t (&m)[16],
                                  const std::uint32_t (&q)[32], Probe& probe) {
  std::uint32_t b[16];
  {
    float d[32];
    const std::uint64_t db = k_major(smem + Prep::t2t);
    keep(m);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) wgmma_rs<64, 1, 0>(d, m + 4 * kk, db + k_step(kk), kk > 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(d);
    keep(m);
#pragma unroll
    for (int i = 0; i < 16; ++i) b[i] = pack_f16(d[2 * i], d[2 * i + 1]);
  }
  float d[64];
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const F2 x = unpack_f16(q[i]);
    d[2 * i] = x.x, d[2 * i + 1] = x.y;
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
  probe.mark(5);
  barrier(kFolded, Prep::threads);  // nobody reads T2 any more
  probe.mark(6);
  const Smem to_b = fragment_a(smem + Packet::b, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    stmatrix(to_b ^ (j << 5), scale_f16(b[4 * j], 0.0625f), scale_f16(b[4 * j + 1], 0.0625f),
             scale_f16(b[4 * j + 2], 0.0625f), scale_f16(b[4 * j + 3], 0.0625f));
  const Smem at = fragment_a(smem + Packet::qh, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    stmatrix((at ^ ((j & 3) << 5)) + (j >> 2) * kTile, pack_f16(d[8 * j], d[8 * j + 1]),
             pack_f16(d[8 * j + 2], d[8 * j + 3]), pack_f16(d[8 * j + 4], d[8 * j + 5]),
             pack_f16(d[8 * j + 6], d[8 * j + 7]));
}

/// Where a work stands in the records of a place: two, in turn. rows = 0: there is no work, nor any after it.
FLA_DEVICE Smem record_of(Smem at, std::uint32_t turn) { return at + Prep::record + 32 * turn; }

/// The barrier at which the folding warps wait for a place's scaled work; the scaling warps go on.
FLA_DEVICE std::uint32_t scaled_in(std::uint32_t place) { return 4 + place; }

/// Tokens of a warp's eight whose gates come before q and k do.
#ifndef FLA_EARLY
#define FLA_EARLY 4
#endif
inline constexpr int kEarly = FLA_EARLY;

/// Steps 2 and 3, warps 0 to 7: g, q, k of one work after the other to what the pairs and the folds multiply.
template <Half16 type>
FLA_DEVICE void prep_scale(const Params& p, Smem smem, std::uint32_t thread) {
  const std::uint32_t warp = uniform(thread >> 5), lane = kept(thread & 31), tid = 32 * warp + lane,
                      wg = warp >> 2, w4 = warp & 3;
  constexpr std::uint32_t team = 1;  // named barrier
  const KdaCall& call = p.call;
  Patience patience;
  Probe probe{smem + Prep::ticks + 64 * wg, (tid & 127) == 0};
  probe.begin();
  for (std::uint32_t n = 0;; ++n) {
    const std::uint32_t turn = (n >> 1) & 1;
    const Smem at = smem + (n & 1) * Prep::bytes;
    mbar_wait(at + Prep::bar_g, turn, patience);
    warp_sync();
    probe.mark(0);
    const U4 work = load_u32x4(record_of(at, turn));
    const std::uint32_t rows = work.w;
    if (rows == 0) break;
    // Address of the thread's 4 channels of its first token in a 64-row tile at offset 0.
    const auto first_of = [&](std::uint32_t l) { return at + warp * 1024 + (l >> 4) * kTile + (l & 15) * 8; };
    const Smem x0 = first_of(lane);

    // 2. Gates and norms: the norms' matrix products fill time that the gates' functions take.
    float a[8][4];
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
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) unpack4<type>(load_u32x2(row_of(x0, j) + Prep::g), a[j]);
    }
    probe.mark(1);
    const Gates gates =
        gates_of(call, load_f32(at + Prep::bias + 512), load_f32x4(at + Prep::bias + 16 * lane));
    decays<0, kEarly>(call.gate, gates, a, [](int) {});
    probe.mark(2);
    mbar_wait(at + Prep::bar_qk, turn, patience);
    warp_sync();
    probe.mark(3);
    if (rows < kChunk) {  // rows of whatever comes after the sequence, NaN perhaps
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (8 * warp + j >= rows) {
          const Smem to = row_of(x0, j) + Prep::raw + wg * (16384 - 4096);
          store(to, U2{0, 0});
          store(to + 4096, U2{0, 0});
        }
      barrier(team, Prep::threads);
    }
    float lo[4] = {0, 0, 0, 0}, hi[4] = {0, 0, 0, 0};
    {
      // the diagonal of X X^T; warps 0-3: 16 tokens of q each, warps 4-7: of k
      const Smem x = fragment_a(at + Prep::raw + (w4 >> 1) * 16384, 32 * wg + 16 * (w4 & 1), lane);
      constexpr int each = 8 / (8 - kEarly);
      decays<kEarly, 8>(call.gate, gates, a, [&](int j) {
#pragma unroll
        for (int kk = each * (j - kEarly); kk < each * (j - kEarly) + each; ++kk) {
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
    {
      float run[4];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        run[c] = ((a[0][c] * a[1][c]) * (a[2][c] * a[3][c])) * ((a[4][c] * a[5][c]) * (a[6][c] * a[7][c]));
      store(at + Prep::run + warp * 512 + lane * 16, F4{run[0], run[1], run[2], run[3]});
      const auto below = [&](float x) { return any(run[0] < x || run[1] < x || run[2] < x || run[3] < x); };
      const bool steep = below(0x1p-2f), strong = below(0x1p-59f);
      if (lane == 0) store(at + Prep::vote + 4 * warp, 2 * std::uint32_t(strong) | std::uint32_t(steep));
    }
    {
      const float f = wg == 0 ? 16.0f * call.scale : 1.0f;
      const std::uint32_t g = lane >> 2, t = lane & 3;
      const Smem to = at + Prep::factor + wg * 4 + (16 * w4 + g) * 8;
      if (t == (g >> 1)) {
        store(to, call.l2norm ? f * rsqrt_of(((g & 1) ? lo[1] : lo[0]) + 1e-6f) : f);
        store(to + 64, call.l2norm ? f * rsqrt_of(((g & 1) ? hi[3] : hi[2]) + 1e-6f) : f);
      }
    }
    probe.mark(4);
    if (n >= 2) mbar_wait(at + Prep::bar_left, turn ^ 1, patience);
    barrier(team, Prep::threads);
    probe.mark(5);

    // 3
    const Way way = way_of(at);
    if (way == Way::exact) {
      exact_pairs<type>(at, kept(tid), warp, kept(lane), a, at + Prep::beta + 256 * turn, team);
      exact_copies<type>(at, first_of(kept(lane)), warp, lane, a);
      exact_move(kept(at), kept(tid), team);
    } else if (way == Way::steep) {
      prep_copies<type, Half16::bf16>(at, x0, warp, lane, a);
    } else {
      prep_copies<type, Half16::f16>(at, x0, warp, lane, a);
    }
    warp_sync();
    barrier_arrive(scaled_in(n & 1), 2 * Prep::threads);
    probe.mark(6);
  }
  probe.end(p.probe ? p.probe + (block() * 4 + wg) * 16 : nullptr);
}

/// Steps 1 and 4 to 8, warps 8 to 15: finds the works, has their inputs loaded, and makes packets of what the
/// other warps scaled.
FLA_DEVICE void prep_fold(const Params& p, Smem smem, std::uint32_t thread, std::int32_t worker,
                          std::int32_t workers) {
  const std::uint32_t warp = uniform(thread >> 5), lane = kept(thread & 31), tid = 32 * warp + lane,
                      wg = warp >> 2, w4 = warp & 3;
  constexpr std::uint32_t team = 2, group = 3;  // named barriers
  const KdaCall& call = p.call;
  const Schedule& schedule = p.schedule;
  Patience patience;
  Probe probe{smem + Prep::bytes + Prep::ticks + 64 * wg, (tid & 127) == 0};

  // Who does what alone: the others wait for nobody who waits for memory.
  const bool finds = tid == 128, stores = tid == 160;
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
  // What TMA does not bring, by a warp: two tokens and four channels a lane. One warp alone is slow, so that
  // as little as possible is done here, and the rest by the readers.
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
  const auto store_rest = [&](Smem at, std::uint32_t turn, const Rest& rest) {
    const std::uint32_t rows = load_u32(record_of(at, turn) + 12);
    const Smem to = at + Prep::beta + 256 * turn + 4 * lane;
    store(to, lane < rows ? beta_of(call, element(rest.beta[0], call.beta.dtype)) : 0.0f);
    store(to + 128, lane + 32 < rows ? beta_of(call, element(rest.beta[1], call.beta.dtype)) : 0.0f);
    store(at + Prep::bias + 16 * lane, rest.bias);
    if (lane == 0) store(at + Prep::bias + 512, element(rest.A_log, call.A_log.dtype));
    mbar_arrive(at + Prep::bar_g);
  };
  const auto load_g = [&](Smem at, std::uint32_t turn) {
    const U4 work = load_u32x4(record_of(at, turn));
    if (work.w == 0 || p.gate_f32) {
      mbar_arrive(at + Prep::bar_g);
      return;
    }
    mbar_expect(at + Prep::bar_g, 16384);
#pragma unroll
    for (int b = 0; b < 2; ++b)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        tma_load(at + Prep::g + h * kTile + b * 4096, &p.g, at + Prep::bar_g, 64 * h, work.x, work.z + 32 * b,
                 work.y);
  };
  // A quarter of q and k, by one thread of each of four warps: half h of block b.
  const auto load_qk = [&](Smem at, std::uint32_t turn, int b, int h) {
    const U4 work = load_u32x4(record_of(at, turn));
    if (work.w == 0) return;
    const int head = load_u32(record_of(at, turn) + 28);
    const Smem to = at + Prep::raw + b * 16384 + h * kTile;
    mbar_expect(at + Prep::bar_qk, 8192);
    tma_load(to, &p.q, at + Prep::bar_qk, 64 * h, head, work.z + 32 * b, work.y);
    tma_load(to + 4096, &p.k, at + Prep::bar_qk, 64 * h, head, work.z + 32 * b, work.y);
  };
  // The packet of the work before may be read by others once its writes are there.
  const auto publish = [&] {
    if (!schedule.ready) return;
    const U2 packet = load_u32x2(smem + Prep::stored);
    bulk_wait();
    fence_async_global();
    store_release(schedule.ready + packet.x * kReadyApart, packet.y + 1);
  };

  std::int32_t w = worker;  // the next work that is not announced yet, of the finding thread
  if (warp == 4) {
#pragma unroll 1
    for (std::uint32_t i = 0; i < 3; ++i, w += workers) {
      const Smem at = smem + (i & 1) * Prep::bytes;
      if (finds) announce(w, planned_at(schedule, w, works), record_of(at, i >> 1));
      warp_sync();
      if (i < 2 && finds) load_g(at, 0);
      if (i < 2 && lane < 4) load_qk(at, 0, lane >> 1, lane & 1);
      warp_sync();
    }
    if (finds && schedule.claim) w = fetch_add(schedule.claim, 1);
#pragma unroll 1
    for (std::uint32_t i = 0; i < 2; ++i) {
      const Smem at = smem + i * Prep::bytes;
      store_rest(at, 0, load_rest(record_of(at, 0)));
    }
  }
  barrier(team, Prep::threads);

  probe.begin();
  std::uint32_t n = 0;
  for (;; ++n) {
    const std::uint32_t turn = (n >> 1) & 1;
    const Smem at = smem + (n & 1) * Prep::bytes, other = smem + (~n & 1) * Prep::bytes;
    if (load_u32(record_of(at, turn) + 12) == 0) break;
    const Smem beta = at + Prep::beta + 256 * turn;
    barrier(scaled_in(n & 1), 2 * Prep::threads);
    fence_async_shared();
    probe.mark(8);

    // 4, 5. kept(lane): addresses are computed again for every work; over the loop they would take registers
    // that it has not.
    PlannedWork seen{};
    if (finds) seen = planned_at(schedule, w, works);
    if (const Way way = way_of(at); way != Way::exact)
      prep_pairs(at, beta, way == Way::steep, wg, w4, kept(lane), team, probe);
    probe.mark(9);

    // 6. Warps with rows of L solve; the others prepare what comes, a part for each warp: one alone is slow.
    Rest rest{};
    if (w4 >= 2) {
      warp_sync();
      prep_invert(at, beta, 2 * wg + (w4 & 1), kept(lane));
      probe.mark(2);
      barrier(pair_of(wg), 64);
      if (w4 == 3) prep_merge(at, beta, wg, kept(lane));
      probe.mark(3);
    } else if (warp == 0) {
      if (lane == 0) {
        std::uint32_t taken = 0;
        const U4 to = load_u32x4(record_of(at, turn) + 16);
        if (schedule.taken) taken = load_relaxed(schedule.taken + to.z * kTakenApart);
        fence_async_shared();
        load_g(at, turn ^ 1);
        const std::int32_t room = std::int32_t(taken) - std::int32_t(to.y) + schedule.depth;
        store(smem + Prep::room, std::uint32_t(room > 0));
      }
    } else if (warp == 1) {
      rest = load_rest(record_of(at, turn ^ 1));  // in flight until 7
    } else if (finds) {
      announce(w, seen, record_of(other, ((n + 3) >> 1) & 1));
      w = schedule.claim ? std::int32_t(fetch_add(schedule.claim, 1)) : w + workers;
    }
    warp_sync();  // barriers want whole warps
    // Who stores waits for memory: the others go on without him, and he waits for them later.
    constexpr std::uint32_t storing = 5;
    if (warp == storing) {
      barrier_arrive(team, Prep::threads);
      if (stores && n > 0) {
        bulk_wait_read();  // the packet before has left its place
        mbar_arrive(other + Prep::bar_left);
        publish();
      }
      warp_sync();
      barrier(kLate, Prep::threads);
    } else {
      barrier_arrive(kLate, Prep::threads);
      barrier(team, Prep::threads);
    }
    probe.mark(10);

    // 6, 7
    if (wg == 0) {
      prep_finish(at, beta, warp, kept(lane));
      probe.mark(11);
      barrier(team, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_keys(at, w4, kept(lane), group, probe, [&] {
        if (lane == 0) load_qk(at, turn ^ 1, w4 >> 1, w4 & 1);
        warp_sync();
        if (warp == 1) store_rest(at, turn ^ 1, rest);
      });
    } else {
      std::uint32_t q[32], m[16];
      const Smem from = fragment_a(at + Packet::qh, 16 * w4, kept(lane)),
                 from_m = fragment_a(at + Prep::m, 16 * w4, kept(lane));
#pragma unroll
      for (int j = 0; j < 8; ++j) ldmatrix(q + 4 * j, (from ^ ((j & 3) << 5)) + (j >> 2) * kTile);
#pragma unroll
      for (int j = 0; j < 4; ++j) ldmatrix(m + 4 * j, from_m ^ (j << 5));
      probe.mark(11);
      barrier(team, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_queries(at, w4, kept(lane), m, q, probe);
    }

    // 8. Out.
    probe.mark(13);
    barrier(team, Prep::threads);
    if (stores) {
      fence_async_shared();
      const U4 to = load_u32x4(record_of(at, turn) + 16);
      if (schedule.taken) {
        if (load_u32(smem + Prep::room) == 0)
          wait_at_least(schedule.taken + to.z * kTakenApart, to.y - schedule.depth + 1, patience);
        fence_async_global();
      }
      std::uint8_t* const packet = schedule.packets + std::uint64_t(to.x) * Packet::bytes;
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)  // in pieces: loads come between
        bulk_store(packet + i * 2 * kTile, at + Prep::packet + i * 2 * kTile,
                   i < 3 ? 2 * kTile : Packet::bytes - 6 * kTile);
      bulk_commit();
      store(smem + Prep::stored, U2{to.x, to.y});
    }
    warp_sync();
    probe.mark(14);
  }
  if (stores && n > 0) {
    bulk_wait_read();
    publish();
  }
  probe.end(p.probe ? p.probe + (block() * 4 + 2 + wg) * 16 : nullptr);
}

/// All of prep: a CTA of 512 threads takes works `worker`, worker + workers, … or, beside the state, what
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
  // The pairs of block 0 read over the end of k0; what they read there is masked, but must be there.
  constexpr std::uint32_t gap = (Prep::raw - Packet::bytes) / 16;
  if (tid < 2 * gap) store(smem + tid / gap * Prep::bytes + Packet::bytes + 16 * (tid % gap), U4{0, 0, 0, 0});
  fence_async_shared();
  barrier(9, 2 * Prep::threads);
  wait_for_kernel_before();
  if (uniform(tid >> 5) < Prep::threads / 32)
    prep_scale<type>(p, smem, tid);
  else
    prep_fold(p, smem, tid - Prep::threads, worker, workers);
}

}  // namespace fla::flash_kda
