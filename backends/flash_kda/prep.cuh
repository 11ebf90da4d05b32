#pragma once

#include "backends/flash_kda/gates.cuh"
#include "backends/flash_kda/probe.cuh"
#include "backends/flash_kda/work.cuh"

/// Prep: the operators of a chunk of one head, as a packet (layout.cuh). 256 threads, two such teams on an
/// SM, each going from one work to the next; everything below is one team's.
///
/// Notation. a_i: decay of token i, a vector over channels. D(x -> y): the product of the decays between.
///   M_ij = 16 scale q_i (D(j -> i) k_j), i >= j      L_ij = beta_i k_i (D(j -> i) k_j), i > j
///   T = (I + L)^-1                                   T2 = T diag(beta)
///   Q~_i = 16 scale q_i D(start -> i)                K~_i = k_i D(start -> i)      Kr_i = k_i D(i -> end)
///   packet: Kt = K~   B = M T2 / 16   Qh = Q~ - M T2 K~   Kr = T2^T Kr
///
///   step         who                                       from -> to (shared memory unless said)
///   1  loads     a thread: TMA, boxes of 32 x 64           g -> g;  q, k -> raw: [q0 k0] [q1 k1], 32-token
///                                                          blocks of two halves each
///   2  gates     warp: 8 tokens, lane: 4 channels          g -> a (registers); products over the 8 -> run
///      norms     warp: 16 tokens of q or of k, by mma      raw -> diagonal of X X^T -> factor
///      ------------ barrier; exact or not, by vote: a run of 8 that decays by more than 2^-59
///   3  copies    as gates; scales: running products of a   raw -> in place q, k D(mid -> i) (bf16: range);
///                mid: after 16 tokens of a block           k D(i -> mid_1) -> g;
///                                                          k D(i -> mid_0) -> packet.b;
///                                                          Q~, K~, Kr (f16) -> packet
///      ------------ barrier
///   4  pairs     WG0: [q0; k0] x k of block 0              raw, packet.b -> wgmma -> registers
///                WG1: [q1; k1] x k of both blocks          raw, g -> wgmma -> registers
///      ------------ barrier
///   5  epilogue  the same, masked                          M, L (f16), L's diagonal 16 x 16 (f32) -> raw, g
///      ------------ barrier
///   6  solve     WG0: a lane a column of 16 x 16, then     L -> T^T, T2^T (f16) -> raw
///                merges 16 -> 32 -> 64 by mma
///      WG1       warp 5: the next work -> next.  A thread: the packet before is published
///      ------------ barrier
///   7  folds     WG0: T2^T Kr                              raw, packet -> wgmma -> packet.kr
///                WG1: M T2, then Q~ - M T2 K~              raw, packet -> wgmma -> packet.b, packet.qh
///      WG0       warp 3: the next work's beta and gate parameters (memory) -> beta, bias
///      ------------ barrier
///   8  out       a thread: TMA of the next q, k, then      packet -> memory or L2 (the next g: before 7)
///                bulk copies
///
///   exact: instead of 3 to 5, D(j -> i) by running products down the rows, all in f32; about five times the
///   time.
namespace fla::flash_kda {

struct Prep {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t packet = 0;
  static constexpr std::uint32_t raw = 57 * 1024;
  static constexpr std::uint32_t g = raw + 32768;
  // block 0's columns for its own rows: 2 halves x 32 rows
  static constexpr std::uint32_t k0 = packet + Packet::b;
  // in the raw area after the pairs; the diagonal blocks column by column, 80 bytes apart
  static constexpr std::uint32_t m = raw, l = raw + kTile, tt = raw + 2 * kTile, t2t = raw + 3 * kTile,
                                 diagonal = g;
  static constexpr std::uint32_t diagonal_column = 80, diagonal_block = 16 * diagonal_column;
  static constexpr std::uint32_t run = g + 16384;      // f32 [8 runs of 8 tokens][128]: products of decays
  static constexpr std::uint32_t factor = run + 4096;  // f32 [64][2]: of q (with 16 scale), of k
  static constexpr std::uint32_t beta = factor + 512;  // f32 [2][64], in turn
  static constexpr std::uint32_t bias = beta + 512;    // f32 [128], of the gates; then A_log
  static constexpr std::uint32_t vote = bias + 528;    // u32 [8], one a warp
  // 2 x u32 [8], in turn: head, batch, token, rows, packet, number, stream, room
  static constexpr std::uint32_t next = vote + 32;
  // u32 [4]: the slice of the last work; the next work; the packet stored, its number
  static constexpr std::uint32_t cursor = next + 64;
  static constexpr std::uint32_t bars = cursor + 16;  // g, qk
  static constexpr std::uint32_t ticks = bars + 16;   // probe builds: u32 [2][16]
  static constexpr std::uint32_t end = ticks + 128;
  static constexpr std::uint32_t bytes = (end + 1023) / 1024 * 1024;
};
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
FLA_DEVICE void store_bf16(Smem a, const float (&x)[4], const float (&s)[4]) {
  store(a, U2{pack_bf16(x[0] * s[0], x[1] * s[1]), pack_bf16(x[2] * s[2], x[3] * s[3])});
}
FLA_DEVICE void store_bf16(Smem a, const float (&x)[4]) {
  store(a, U2{pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3])});
}
FLA_DEVICE void load4(Smem a, float (&x)[4]) {
  const F4 v = load_f32x4(a);
  x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
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
template <Half16 type>
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
      store_bf16(at + q_rows, q);
      store_bf16(at + q_rows + 4096, km);
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
    store_bf16(at + Prep::g, k[j], to_mid1);
    if (block == 0) store_bf16(at + to_k0, k[j], to_mid);
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
/// one after the other. Decays stand in the packet's first 32 KB meanwhile; M and L arise in g, L's diagonal
/// blocks in packet.b.
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
      store(diagonal + (i >> 4) * Prep::diagonal_block + (j & 15) * Prep::diagonal_column + (i & 15) * 4, z);
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

/// M, L and the diagonal blocks from where exact_pairs put them to where the solve wants them; T^T and T2^T
/// are zeroed.
FLA_DEVICE void exact_move(Smem smem, std::uint32_t tid, std::uint32_t team) {
  constexpr std::uint32_t diagonal_bytes = 4 * Prep::diagonal_block;
  barrier(team, Prep::threads);  // raw q, k are read
  U4 x[4], y[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = load_u32x4(smem + Prep::g + tid * 16 + i * 4096);
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (tid * 16 + i * 4096 < diagonal_bytes) y[i] = load_u32x4(smem + Packet::b + tid * 16 + i * 4096);
  barrier(team, Prep::threads);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    store(smem + Prep::m + tid * 16 + i * 4096, x[i]);
  }
  zero_below(smem, tid);
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (tid * 16 + i * 4096 < diagonal_bytes) store(smem + Prep::diagonal + tid * 16 + i * 4096, y[i]);
}

/// Steps 4 and 5 of one warpgroup, one code for both blocks. Rows 0-31 of the accumulators are q tokens,
/// 32-63 k tokens of its block; columns 32-63 of block 0 are of no meaning, and masked or never read.
FLA_DEVICE void prep_pairs(Smem smem, Smem beta, std::uint32_t wg, std::uint32_t w4, std::uint32_t lane,
                           std::uint32_t team) {
  float d[32];
  const std::uint64_t da = k_major(smem + Prep::raw + wg * 16384);
  const std::uint64_t db = k_major(smem + (wg == 0 ? Prep::k0 : Prep::g));
  const std::uint64_t half = (wg == 0 ? kTile / 2 : kTile) >> 4;
  wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < 8; ++kk)
    wgmma_ss<64, Half16::bf16, 0>(d, da + k_step(kk), db + k_step(kk & 3) + (kk >> 2) * half, kk > 0);
  wgmma_commit();
  wgmma_wait<0>();
  keep(d);
  barrier(team, Prep::threads);  // nobody reads the raw area any more

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
    const Smem to =
        smem + Prep::diagonal + (row >> 4) * Prep::diagonal_block + 2 * t * Prep::diagonal_column + g * 4;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at_0 = 4 * n + i;
        const float x = w4 == 2 ? d[at_0] : d[at_0 + 8], y = w4 == 2 ? d[at_0 + 16] : d[at_0 + 24];
        store(to + (8 * n + (i & 1)) * Prep::diagonal_column + (i >> 1) * 32, wg == 0 ? x : y);
      }
  }
}

/// Step 6, four warps: T^T and T2^T.
FLA_DEVICE void prep_solve(Smem smem, Smem betas, std::uint32_t warp, std::uint32_t lane,
                           std::uint32_t group) {
  const Smem tt = smem + Prep::tt, t2t = smem + Prep::t2t, l = smem + Prep::l;
  const std::uint32_t g = lane >> 2;
  if (warp < 2) {
    // (I + L) T = I on a 16 x 16 block, one lane a column.
    const std::uint32_t b = 2 * warp + (lane >> 4), c = lane & 15;
    const Smem diagonal = smem + Prep::diagonal + b * Prep::diagonal_block;
    float s[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) s[i] = std::uint32_t(i) == c ? 1.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < 15; ++j)
#pragma unroll
      for (int q = (j + 1) / 4; q < 4; ++q) {
        float v[4];
        load4(diagonal + j * Prep::diagonal_column + q * 16, v);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (4 * q + e > j) s[4 * q + e] = fma_of(-v[e], s[j], s[4 * q + e]);
      }
    const std::uint32_t row = 16 * b + c;
    const float beta = load_f32(betas + 4 * row);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t at = swizzled(row, 32 * b + 16 * h);
      std::uint32_t x[4], y[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = pack_f16(s[8 * h + 2 * i], s[8 * h + 2 * i + 1]);
        y[i] = pack_f16(beta * s[8 * h + 2 * i], beta * s[8 * h + 2 * i + 1]);
      }
      store(tt + at, U4{x[0], x[1], x[2], x[3]});
      store(t2t + at, U4{y[0], y[1], y[2], y[3]});
    }
    warp_sync();
    // 16 -> 32: T21^T = -(T11^T L21^T) T22^T
    const std::uint32_t o = 32 * warp;
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
  barrier(group, 128);
  // 32 -> 64: warp = 16 columns c of T21 x 16 rows r.
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

/// Step 7, warpgroup 0: T2^T Kr over Kr.
FLA_DEVICE void prep_fold_keys(Smem smem, std::uint32_t w4, std::uint32_t lane, std::uint32_t group) {
  float d[64];
  const std::uint64_t da = k_major(smem + Prep::t2t), db = mn_major(smem + Packet::kr);
  wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) wgmma_ss<128, Half16::f16, 1>(d, da + k_step(kk), db + mn_step(kk), kk > 0);
  wgmma_commit();
  wgmma_wait<0>();
  keep(d);
  barrier(group, 128);  // all four warps have read Kr
  const Smem at = fragment_a(smem + Packet::kr, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    stmatrix((at ^ ((j & 3) << 5)) + (j >> 2) * kTile, pack_f16(d[8 * j], d[8 * j + 1]),
             pack_f16(d[8 * j + 2], d[8 * j + 3]), pack_f16(d[8 * j + 4], d[8 * j + 5]),
             pack_f16(d[8 * j + 6], d[8 * j + 7]));
}

/// Step 7, warpgroup 1: B = M T2, then Q~ - B K~ over Q~ (given in q).
FLA_DEVICE void prep_fold_queries(Smem smem, std::uint32_t w4, std::uint32_t lane,
                                  const std::uint32_t (&q)[32]) {
  std::uint32_t b[16];
  {
    float d[32];
    const std::uint64_t da = k_major(smem + Prep::m), db = k_major(smem + Prep::t2t);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) wgmma_ss<64, Half16::f16, 0>(d, da + k_step(kk), db + k_step(kk), kk > 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(d);
#pragma unroll
    for (int i = 0; i < 16; ++i) b[i] = pack_f16(d[2 * i], d[2 * i + 1]);
  }
  const Smem to_b = fragment_a(smem + Packet::b, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    stmatrix(to_b ^ (j << 5), scale_f16(b[4 * j], 0.0625f), scale_f16(b[4 * j + 1], 0.0625f),
             scale_f16(b[4 * j + 2], 0.0625f), scale_f16(b[4 * j + 3], 0.0625f));
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
  const Smem at = fragment_a(smem + Packet::qh, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    stmatrix((at ^ ((j & 3) << 5)) + (j >> 2) * kTile, pack_f16(d[8 * j], d[8 * j + 1]),
             pack_f16(d[8 * j + 2], d[8 * j + 3]), pack_f16(d[8 * j + 4], d[8 * j + 5]),
             pack_f16(d[8 * j + 6], d[8 * j + 7]));
}

inline constexpr std::uint32_t kHalfWork = 5500;  // cycles

/// All of prep. `worker` of `workers` teams takes work number `worker` first; `index` (0 or 1) is the team's
/// place in its CTA and `thread` the thread's in its team.
template <Half16 type>
FLA_DEVICE void prep(const Params& p, Smem smem, std::uint32_t index, std::uint32_t thread,
                     std::int32_t worker, std::int32_t workers) {
  const std::uint32_t warp = uniform(thread >> 5), lane = kept(thread & 31), tid = 32 * warp + lane,
                      wg = warp >> 2, w4 = warp & 3;
  const std::uint32_t team = 1 + 3 * index, group = team + 1 + wg;  // named barriers
  const KdaCall& call = p.call;
  const Schedule& schedule = p.schedule;
  const Smem bar_g = smem + Prep::bars, bar_qk = bar_g + 8;
  Patience patience;
  Probe probe{smem + Prep::ticks + 64 * wg, (tid & 127) == 0};

  // Who does what alone: the others wait for nobody who waits for memory.
  const bool loads_g = tid == 0, finds = tid == 160, stores = tid == 192;

  // What a work is travels through shared memory, two places in turn. rows = 0: there is none. kLater: nobody
  // takes work while the state is so far behind that the packet at hand has no place yet: others might wait
  // for that work.
  constexpr std::uint32_t kLater = ~0u;
  const auto announce = [&](std::int32_t w, std::uint32_t place) {  // by a warp; w is its finding thread's
    const Smem to = smem + Prep::next + 32 * place;
    if (finds) store(smem + Prep::cursor + 4, std::uint32_t(w));
    warp_sync();
    w = load_u32(smem + Prep::cursor + 4);
    if (w < 0 || w >= works_of(schedule)) {
      if (finds) store(to, U4{0, 0, 0, w < 0 ? kLater : 0});
    } else {
      std::int32_t slice = load_u32(smem + Prep::cursor);
      const Work work = locate(p, w, slice, lane);
      warp_sync();  // everybody has read the cursor
      if (finds) {
        store(smem + Prep::cursor, std::uint32_t(slice));
        store(to, U4{std::uint32_t(work.head), std::uint32_t(work.batch), std::uint32_t(work.token),
                     std::uint32_t(work.rows)});
        const std::uint32_t packet =
            schedule.depth ? work.stream * schedule.depth + work.number % schedule.depth : std::uint32_t(w);
        store(to + 16, U4{packet, std::uint32_t(work.number), std::uint32_t(work.stream), 1});
      }
    }
    warp_sync();
  };
  const auto known = [](std::uint32_t rows) { return rows - 1 < std::uint32_t(kChunk); };
  // What TMA does not bring, by warp 3: two tokens and four channels a lane. In flight during the fold; one
  // warp alone is slow, so that the rest of the work on it is left to its readers.
  struct Rest {
    std::uint32_t beta[2], bias[4], A_log;  // bits
  };
  const auto load_rest = [&](std::uint32_t place) {
    const U4 next = load_u32x4(smem + Prep::next + 32 * place);
    Rest rest{};
    if (!known(next.w)) return rest;
    const std::int64_t head = next.x;
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i)
      if (lane + 32 * i < next.w)
        rest.beta[i] =
            element_bits(call.beta.data, call.beta.dtype,
                         next.y * call.beta.batch + (std::int64_t(next.z) + lane + 32 * i) * call.beta.token +
                             head * call.beta.head);
    if (call.gate != Gate::given) {
      if (call.dt_bias.data) {
#pragma unroll
        for (std::uint32_t i = 0; i < 4; ++i)
          rest.bias[i] = element_bits(call.dt_bias.data, call.dt_bias.dtype,
                                      head * call.dt_bias.head + (lane + 32 * i) * call.dt_bias.channel);
      }
      if (call.A_log.data)
        rest.A_log = element_bits(call.A_log.data, call.A_log.dtype, head * call.A_log.head);
    }
    return rest;
  };
  const auto store_rest = [&](std::uint32_t place, const Rest& rest) {
    const std::uint32_t rows = load_u32(smem + Prep::next + 32 * place + 12);
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i)
      store(smem + Prep::beta + 256 * place + 4 * (lane + 32 * i),
            lane + 32 * i < rows ? beta_of(call, element(rest.beta[i], call.beta.dtype)) : 0.0f);
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i)
      store(smem + Prep::bias + 4 * (lane + 32 * i), element(rest.bias[i], call.dt_bias.dtype));
    if (lane == 0) store(smem + Prep::bias + 512, element(rest.A_log, call.A_log.dtype));
  };
  // The same towards L2, by warp 5 as soon as the work is known.
  const auto prefetch_rest = [&](std::uint32_t place) {
    const U4 next = load_u32x4(smem + Prep::next + 32 * place);
    if (!known(next.w)) return;
    const std::int64_t first = next.y * call.beta.batch + std::int64_t(next.x) * call.beta.head;
#pragma unroll
    for (std::uint32_t i = 0; i < 64; i += 32)
      if (i + lane < next.w)
        prefetch_l2(static_cast<const std::uint8_t*>(call.beta.data) +
                    (first + (std::int64_t(next.z) + i + lane) * call.beta.token) *
                        (call.beta.dtype == DType::f32 ? 4 : 2));
  };
  const auto load_g = [&](std::uint32_t place) {
    const U4 next = load_u32x4(smem + Prep::next + 32 * place);
    if (!known(next.w) || p.gate_f32) return;
    mbar_expect(bar_g, 16384);
#pragma unroll
    for (int b = 0; b < 2; ++b)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        tma_load(smem + Prep::g + h * kTile + b * 4096, &p.g, bar_g, 64 * h, next.x, next.z + 32 * b, next.y);
  };
  const auto load_qk = [&](std::uint32_t place) {
    const U4 next = load_u32x4(smem + Prep::next + 32 * place);
    if (!known(next.w)) return;
    const int head = next.x / call.group;
    mbar_expect(bar_qk, 32768);
#pragma unroll
    for (int b = 0; b < 2; ++b)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Smem to = smem + Prep::raw + b * 16384 + h * kTile;
        tma_load(to, &p.q, bar_qk, 64 * h, head, next.z + 32 * b, next.y);
        tma_load(to + 4096, &p.k, bar_qk, 64 * h, head, next.z + 32 * b, next.y);
      }
  };
  constexpr std::uint32_t kNone = ~0u;
  // The packet of the work before may be read by others once its writes are there.
  const auto publish = [&] {
    bulk_wait();
    const U2 packet = load_u32x2(smem + Prep::cursor + 8);
    if (!schedule.ready || packet.x == kNone) return;
    fence_async_global();
    store_release(schedule.ready + packet.x * kReadyApart, packet.y + 1);
  };

  if (tid == 0) {
    mbar_init(bar_g, 1);
    mbar_init(bar_qk, 1);
    mbar_init_fence();
    prefetch(&p.g);
    prefetch(&p.q);
    prefetch(&p.k);
  }
  // The pairs of block 0 read over the end of k0; what they read there is masked, but must be there.
  if (tid < (Prep::raw - Packet::bytes) / 16) store(smem + Packet::bytes + 16 * tid, U4{0, 0, 0, 0});
  fence_async_shared();
  wait_for_kernel_before();
  std::int32_t w = worker;
  if (finds) {
    store(smem + Prep::cursor, U4{0, 0, kNone, 0});
    store(smem + Prep::next, U4{0, 0, 0, kLater});
  }
  barrier(team, Prep::threads);

  // Teams that do the same at the same time want the same units: the second one begins half a work later,
  // where it pays.
  if (index == 1 && works_of(schedule) >= 6 * workers) pause(kHalfWork);

  probe.begin();
  std::uint32_t place = 0;  // in turn 0 and 1, and so are the mbarriers' phases
  for (;; place ^= 1) {
    std::uint32_t rows = load_u32(smem + Prep::next + 32 * place + 12);
    if (rows == kLater) {            // also at first
      barrier(team, Prep::threads);  // the packet has been stored
      if (warp == 5) {
        if (finds && w < 0) w = fetch_add(schedule.claim, 1);
        announce(w, place);
      }
      barrier(team, Prep::threads);
      if (loads_g) load_g(place);
      if (stores) load_qk(place);
      if (warp == 3) store_rest(place, load_rest(place));
      barrier(team, Prep::threads);
      rows = load_u32(smem + Prep::next + 32 * place + 12);
    }
    if (rows == 0) break;
    const Smem beta = smem + Prep::beta + 256 * place;
    std::uint32_t seen = 0;  // packets that the work's stream has read by now
    if (finds && schedule.taken)
      seen = load_relaxed(schedule.taken + load_u32(smem + Prep::next + 32 * place + 24) * kTakenApart);
    // Address of the thread's 4 channels of its first token in a 64-row tile at offset 0.
    const Smem x0 = smem + warp * 1024 + (lane >> 4) * kTile + (lane & 15) * 8;

    // 2. Gates and norms: the norms' matrix products fill time that the gates' functions take.
    float a[8][4];
    if (p.gate_f32) {
      const U4 work = load_u32x4(smem + Prep::next + 32 * place);
      const float* const from = static_cast<const float*>(call.g.data) + work.y * call.g.batch +
                                (std::int64_t(work.z) + 8 * warp) * call.g.token + work.x * call.g.head +
                                4 * lane;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const F4 x =
            8 * warp + j < rows ? *reinterpret_cast<const F4*>(from + j * call.g.token) : F4{0, 0, 0, 0};
        a[j][0] = x.x, a[j][1] = x.y, a[j][2] = x.z, a[j][3] = x.w;
      }
    } else {
      probe.mark(0);
      mbar_wait(bar_g, place, patience);
      warp_sync();
#pragma unroll
      for (int j = 0; j < 8; ++j) unpack4<type>(load_u32x2(row_of(x0, j) + Prep::g), a[j]);
    }
    probe.mark(1);
    const Gates gates =
        gates_of(call, load_f32(smem + Prep::bias + 512), load_f32x4(smem + Prep::bias + 16 * lane));
    decays<0, 6>(call.gate, gates, a, [](int) {});
    probe.mark(2);
    mbar_wait(bar_qk, place, patience);
    warp_sync();
    probe.mark(3);
    if (rows < kChunk) {  // rows of whatever comes after the sequence, NaN perhaps
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (8 * warp + j >= rows) {
          const Smem at = row_of(x0, j) + Prep::raw + wg * (16384 - 4096);
          store(at, U2{0, 0});
          store(at + 4096, U2{0, 0});
        }
      barrier(team, Prep::threads);
    }
    float lo[4] = {0, 0, 0, 0}, hi[4] = {0, 0, 0, 0};
    {
      // the diagonal of X X^T; warps 0-3: 16 tokens of q each, warps 4-7: of k
      const Smem x = fragment_a(smem + Prep::raw + (w4 >> 1) * 16384, 32 * wg + 16 * (w4 & 1), lane);
      decays<6, 8>(call.gate, gates, a, [&](int j) {
#pragma unroll
        for (int kk = 4 * (j - 6); kk < 4 * (j - 6) + 4; ++kk) {
          std::uint32_t r[4];
          ldmatrix(r, (x ^ ((kk & 3) << 5)) + (kk >> 2) * kTile);
          mma<type>(lo, r, r[0], r[2]);
          mma<type>(hi, r, r[1], r[3]);
        }
      });
    }
    if (rows < kChunk) {  // past the sequence's end nothing decays
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (8 * warp + j >= rows) a[j][0] = a[j][1] = a[j][2] = a[j][3] = 1;
    }
    {
      float run[4];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        run[c] = ((a[0][c] * a[1][c]) * (a[2][c] * a[3][c])) * ((a[4][c] * a[5][c]) * (a[6][c] * a[7][c]));
      store(smem + Prep::run + warp * 512 + lane * 16, F4{run[0], run[1], run[2], run[3]});
      constexpr float least = 0x1p-59f;
      const bool strong = any(run[0] < least || run[1] < least || run[2] < least || run[3] < least);
      if (lane == 0) store(smem + Prep::vote + 4 * warp, std::uint32_t(strong));
    }
    {
      const float f = wg == 0 ? 16.0f * call.scale : 1.0f;
      const std::uint32_t g = lane >> 2, t = lane & 3;
      const Smem to = smem + Prep::factor + wg * 4 + (16 * w4 + g) * 8;
      if (t == (g >> 1)) {
        store(to, call.l2norm ? f * rsqrt_of(((g & 1) ? lo[1] : lo[0]) + 1e-6f) : f);
        store(to + 64, call.l2norm ? f * rsqrt_of(((g & 1) ? hi[3] : hi[2]) + 1e-6f) : f);
      }
    }
    probe.mark(4);
    if (stores) bulk_wait_read();  // the packet before has left
    probe.mark(5);
    barrier(team, Prep::threads);
    probe.mark(6);

    if (finds) {
      if (!schedule.claim) {
        w += workers;
      } else {
        // Room for the packet: the one before in its place has been read, or will be soon enough not to keep
        // this team.
        constexpr std::int32_t soon = 5;
        const std::int32_t room =
            std::int32_t(seen) - std::int32_t(load_u32(smem + Prep::next + 32 * place + 20)) + schedule.depth;
        if (room <= 0) store(smem + Prep::next + 32 * place + 28, std::uint32_t(0));
        w = room + soon > 0 ? fetch_add(schedule.claim, 1) : ~0u;
      }
    }
    warp_sync();

    // 3 to 5
    bool exact;
    {
      const U4 x = load_u32x4(smem + Prep::vote), y = load_u32x4(smem + Prep::vote + 16);
      exact = uniform(x.x | x.y | x.z | x.w | y.x | y.y | y.z | y.w) != 0;
    }
    if (exact) {
      if (finds) store(smem + Prep::cursor + 4, std::uint32_t(w));  // a register less
      exact_pairs<type>(smem, tid, warp, kept(lane), a, beta, team);
      exact_copies<type>(smem, x0, warp, lane, a);
      exact_move(kept(smem), kept(tid), team);
      if (finds) w = load_u32(smem + Prep::cursor + 4);
    } else {
      prep_copies<type>(smem, x0, warp, lane, a);
      fence_async_shared();
      probe.mark(7);
      barrier(team, Prep::threads);
      probe.mark(8);
      prep_pairs(smem, beta, wg, w4, kept(lane), team);
    }
    fence_async_shared();
    probe.mark(9);
    barrier(team, Prep::threads);
    probe.mark(10);

    // 6, 7. kept(lane): addresses are computed again for every work; over the loop they would take registers
    // that it has not.
    if (wg == 0) {
      prep_solve(smem, beta, warp, kept(lane), group);
      fence_async_shared();
      probe.mark(11);
      barrier(team, Prep::threads);
      probe.mark(12);
      if (loads_g) load_g(place ^ 1);  // L's diagonal has been read
      warp_sync();
      Rest rest{};
      if (warp == 3) rest = load_rest(place ^ 1);
      prep_fold_keys(smem, w4, kept(lane), group);
      if (warp == 3) store_rest(place ^ 1, rest);
    } else {
      if (warp == 5) {
        announce(w, place ^ 1);
        prefetch_rest(place ^ 1);
      } else if (stores) {
        publish();
      }
      warp_sync();
      const Smem at = fragment_a(smem + Packet::qh, 16 * w4, kept(lane));
      std::uint32_t q[32];
#pragma unroll
      for (int j = 0; j < 8; ++j) ldmatrix(q + 4 * j, (at ^ ((j & 3) << 5)) + (j >> 2) * kTile);
      fence_async_shared();
      probe.mark(11);
      barrier(team, Prep::threads);
      probe.mark(12);
      prep_fold_queries(smem, w4, kept(lane), q);
    }

    // 8. Out.
    fence_async_shared();
    probe.mark(13);
    barrier(team, Prep::threads);
    if (stores) {
      load_qk(place ^ 1);  // before the store: copies go one after the other
      const U4 to = load_u32x4(smem + Prep::next + 32 * place + 16);
      if (schedule.taken) {
        if (to.w == 0)
          wait_at_least(schedule.taken + to.z * kTakenApart, to.y - schedule.depth + 1, patience);
        fence_async_global();
      }
      std::uint8_t* const at = schedule.packets + std::uint64_t(to.x) * Packet::bytes;
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)  // in pieces: the other team's loads come between
        bulk_store(at + i * 2 * kTile, smem + Prep::packet + i * 2 * kTile,
                   i < 3 ? 2 * kTile : Packet::bytes - 6 * kTile);
      bulk_commit();
      store(smem + Prep::cursor + 8, U2{to.x, to.y});
    }
    warp_sync();
    probe.mark(14);
  }
  if (stores) publish();
  probe.end(p.probe ? p.probe + (block() * 4 + 2 * index + wg) * 16 : nullptr);
}

}  // namespace fla::flash_kda
