#pragma once

#include "backends/flash_kda/layout.cuh"

/// Prep's shared memory, where a thread's tokens and channels are in it, and how they are read and written.
namespace fla::flash_kda {

/// Whether pairs are products of queries and keys as TMA brought them. Gates of one number a token scale them
/// afterwards, so that they need no reference, however strong they are.
FLA_BOTH constexpr bool has_raw_pairs(GateKind kind) { return kind == GateKind::token; }

/// What a place's warps are told of a task. rows = 0: there is no task, nor any after it.
struct Record {
  static constexpr std::uint32_t head = 0, batch = 4, token = 8, rows = 12;  // u32 each, as Source has them
  static constexpr std::uint32_t packet = 16, number = 20, stream = 24;      // as Target has them
  static constexpr std::uint32_t key_head = 28, bytes = 32;
};

/// A place of prep's shared memory, of which there are two: tasks take them in turn. Names are offsets in
/// bytes. What shares memory stands together, each with the steps (prep.cuh) from which and to which it is
/// alive. Step 1 of the next task but one comes into the same place: its g during 5, its q and k during 6.
struct Prep {
  static constexpr std::uint32_t threads = 256;  // that scale, and as many that fold

  // ---- Sizes in bytes
  static constexpr std::uint32_t row = 4 * kHead;     // of f32 [128 channels]
  static constexpr std::uint32_t lane = 16;           // of f32 [4 channels], what a lane has of a row
  static constexpr std::uint32_t half32 = kTile / 2;  // of a block's 32 tokens, 64 channels
  static constexpr std::uint32_t square = 4 * 8 * 8, column = 4 * 8;  // of f32 [8 columns][8 rows]

  // ---- The packet (layout.cuh) comes first: Packet's offsets are the place's.
  //        kt      3 to 7   K~
  //        qh      3 to 6   Q~, then to 7 Q^
  //        kr      3 to 6   Kr, then to 7 K^r
  //        b       6 to 7   B
  //        gamma   3 to 7
  //        odd …   2 to 7
  static constexpr std::uint32_t packet = 0;
  static constexpr std::uint32_t decay = packet + Packet::kt;  // 2 to 3, odd and exact: f32 [64 tokens][128]
  static constexpr std::uint32_t columns0 = packet + Packet::b;  // 3 to 4: k_j D(j -> mid_0), [2][32 tokens]
  static constexpr std::uint32_t exact_diagonal = packet + Packet::b;  // 3, exact: the later diagonal
  static constexpr std::uint32_t t2t = packet + Packet::b;             // 5 to 6: f16 [64][64], T2^T

  // ---- q and k: [2 halves][64 rows], of block 0 [q0; k0] and of block 1 [k1; q1]
  static constexpr std::uint32_t raw = (Packet::bytes + 1023) / 1024 * 1024;
  static constexpr std::uint32_t rows0 = raw, rows1 = raw + 2 * kTile;  // 1 to 4; from 3 on times D(mid -> i)
  static constexpr std::uint32_t q0 = rows0, k0 = rows0 + half32, k1 = rows1, q1 = rows1 + half32;
  static constexpr std::uint32_t m = raw;               // 5 to 6: f16 [64][64], M
  static constexpr std::uint32_t l = raw + kTile;       // 5: f16 [64][64], -L
  static constexpr std::uint32_t tt = raw + 2 * kTile;  // 5: f16 [64][64], the diagonal blocks of T^T

  // ---- g
  static constexpr std::uint32_t g = raw + 4 * kTile;  // 1 to 2: [2 halves][64 tokens]
  static constexpr std::uint32_t columns1 = g;         // 3 to 4: k_j D(j -> mid_1), [2 halves][64 tokens]
  static constexpr std::uint32_t exact_m = g, exact_l = g + kTile;  // 3, exact: the later m and l

  // ---- Products of decays
  static constexpr std::uint32_t run = g + 2 * kTile;  // 2 to 3: f32 [8 runs of 8 tokens][128]
  static constexpr std::uint32_t diagonal = run;       // 5: 8 squares of -L, those on its diagonal

  // ---- What is of a token, a channel, a warp
  static constexpr std::uint32_t factor = run + 8 * row;  // 2 to 3, f16 to 5, raw pairs to 5 of another task:
                                                          // f32 [2 turns][64][2], of q (with 16 scale), of k
  static constexpr std::uint32_t factors = 8, of_key = 4;               // of a token; of k among them
  static constexpr std::uint32_t beta = factor + 2 * factors * kChunk;  // 1 to 5: f32 [2 turns][64]
  static constexpr std::uint32_t betas = 4 * kChunk;                    // of a turn
  static constexpr std::uint32_t lost_channels = beta;  // 2 to 3, additive: a bit a lane, [8 warps][4]
  static constexpr std::uint32_t gate_offset = beta + 2 * betas;  // 1 to 2: f32 [128] (gates.cuh)
  static constexpr std::uint32_t token_logs =
      gate_offset;  // 1 to 4, raw pairs: f32 [2 turns][64], log2 E(G_i)
  static constexpr std::uint32_t gate_slope = gate_offset + row;  // 1 to 2: f32 [2], slope and rate
  static constexpr std::uint32_t first_lost = gate_slope;  // 1 to 2, raw pairs: u32, see Inputs::store_logs
  static constexpr std::uint32_t dots = gate_slope + 8;    // 2 to 5, f16: f32 [64], q_i k_i as they come
  static constexpr std::uint32_t odd_rest = dots + 4 * kChunk;  // 1 to 2: u32, kOdd where betas or logs are
  static constexpr std::uint32_t vote = odd_rest + 8;           // 2 to 4: u32 [8 scaling warps]
  static constexpr std::uint32_t record = vote + 4 * 8;         // 1 to 7: [2 turns] Record

  // ---- mbarriers: g, and what TMA does not bring, is there; q and k are; the packet before has left
  static constexpr std::uint32_t bar_g = record + 2 * Record::bytes, bar_qk = bar_g + 8,
                                 bar_left = bar_qk + 8;

  static constexpr std::uint32_t ticks = bar_left + 8;  // probe builds: u32 [2 warpgroups][16]
  static constexpr std::uint32_t wg_ticks = 4 * 16;
  static constexpr std::uint32_t end = ticks + 2 * wg_ticks;
  static constexpr std::uint32_t bytes = (end + 1023) / 1024 * 1024;
};
static_assert(Prep::packet == 0);
static_assert(Prep::vote % 16 == 0 && Prep::record % 16 == 0 && Prep::bar_g % 8 == 0);
static_assert(2 * Prep::bytes + 1024 <= 232448);

// ---- Records

/// Of a place, in turn.
FLA_DEVICE Smem record_of(Smem at, std::uint32_t turn) { return at + Prep::record + Record::bytes * turn; }
FLA_DEVICE std::uint32_t rows_in(Smem record) { return load_u32(record + Record::rows); }

/// Where a task's inputs are.
struct Source {
  std::uint32_t head, batch, token, rows;
};
FLA_DEVICE Source source_in(Smem record) {
  const U4 x = load_u32x4(record + Record::head);
  return {x.x, x.y, x.z, x.w};
}
/// Where its packet goes.
struct Target {
  std::uint32_t packet, number, stream;
};
FLA_DEVICE Target target_in(Smem record) {
  const U4 x = load_u32x4(record + Record::packet);
  return {x.x, x.y, x.z};
}

// ---- Rows. A scaling warp has 8 tokens, a lane 4 channels.

/// The thread's channels of token 8 warp + j in a tile of 64 tokens. x0: those of token 8 warp.
FLA_DEVICE Smem row_of(Smem x0, int j) { return (x0 ^ (j << 4)) + j * kTileRow; }

/// How far the q or k of a block's tokens are from their rows in a tile of 64 tokens at offset 0, in which
/// block 1 begins 32 rows down.
FLA_DEVICE std::uint32_t q_rows(std::uint32_t block) {
  return Prep::q0 + block * (Prep::q1 - Prep::q0 - Prep::half32);
}
FLA_DEVICE std::uint32_t k_rows(std::uint32_t block) {
  return Prep::k0 + block * (Prep::k1 - Prep::k0 - Prep::half32);
}

/// What the norms make of a task's queries and keys. Raw pairs take them while the next task but one comes.
template <GateKind kind>
FLA_DEVICE Smem factors_of(Smem at, std::uint32_t turn) {
  return at + Prep::factor + (has_raw_pairs(kind) ? Prep::factors * kChunk * turn : 0);
}
/// Raw pairs: the logarithms of E(G_i) of a task in turn.
FLA_DEVICE Smem logs_of(Smem at, std::uint32_t turn) { return at + Prep::token_logs + 4 * kChunk * turn; }

/// Where element (i, j) of L is among the squares on its diagonal.
FLA_DEVICE std::uint32_t in_diagonal(std::uint32_t i, std::uint32_t j) {
  return (i >> 3) * Prep::square + (j & 7) * Prep::column + (i & 7) * 4;
}

// ---- Four channels

template <Half16 type>
FLA_DEVICE void unpack4(U2 r, float (&x)[4]) {
  const F2 lo = unpack<type>(r.x), hi = unpack<type>(r.y);
  x[0] = lo.x, x[1] = lo.y, x[2] = hi.x, x[3] = hi.y;
}
FLA_DEVICE void load4(Smem a, float (&x)[4]) {
  const F4 v = load_f32x4(a);
  x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}
/// What goes into the packet.
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

// ---- Accumulators

/// 16 x 16 of a tile, from accumulators; `at` as fragment_a has it.
FLA_DEVICE void store_square(Smem at, const float* d) {
  stmatrix(at, pack_f16(d[0], d[1]), pack_f16(d[2], d[3]), pack_f16(d[4], d[5]), pack_f16(d[6], d[7]));
}

}  // namespace fla::flash_kda
