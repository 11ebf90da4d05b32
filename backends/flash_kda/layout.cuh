#pragma once

#include "backends/flash_kda/ptx.cuh"
#include "backends/flash_kda/sizes.h"

/// Where elements lie in shared memory and in packets.
///
/// Tiles of 16-bit elements have 128-byte rows (64 elements) in the 128-byte swizzle: the 16-byte column of
/// row r is XORed with r % 8. That is what TMA writes, what wgmma reads (CuTe's Swizzle<3, 4, 3>), and
/// without bank conflicts for ldmatrix. Tiles begin at multiples of 1024 bytes. An operand with 128 channels
/// is two tiles, one a half.
namespace fla::flash_kda {

inline constexpr std::uint32_t kTileRow = 128;         ///< bytes of a row
inline constexpr std::uint32_t kTile = 64 * kTileRow;  ///< bytes of 64 rows

/// The four operators of a chunk and its decay, as wgmma wants them: prep writes a packet with one bulk copy,
/// state reads it with one. All f16 but the decay.
///
/// Notation of all kernels. Of a chunk of C tokens of one head that begins with the state S: g_i, q_i and
/// k_i are vectors over channels, E(x) = exp(x) by channel, G_i = g_1 + … + g_i, q has the call's scale.
///     a_i = E(g_i)              the decay of token i
///     D(j -> i) = E(G_i - G_j)  the product of the decays after token j, up to token i
///     Q~_i = q_i E(G_i)         K~_i = k_i E(G_i)         Kr_i = k_i E(G_C - G_i)         gamma = E(G_C)
///     M_ij = q_i . D(j -> i) k_j, i >= j                  N_ij = k_i . D(j -> i) k_j, i > j
///     L = diag(beta) N          T = (I + L)^-1            T2 = T diag(beta)
///     U = T2 (V - K~ S)         O = Q~ S + M U            S' = diag(gamma) S + Kr^T U
/// and folded (prep/fold.cuh), which is what a packet is for:
///     K^r = T2^T Kr             B = M T2                  Q^ = Q~ - B K~
///     Y = V - K~ S              O = Q^ S + B V            S' = diag(gamma) S + K^r^T Y
struct Packet {
  static constexpr std::uint32_t kt = 0;             // K~: [2][64 tokens][64 channels]
  static constexpr std::uint32_t qh = 2 * kTile;     // 16 Q^: [2][64][64]
  static constexpr std::uint32_t kr = 4 * kTile;     // K^r: [2][64][64]
  static constexpr std::uint32_t b = 6 * kTile;      // B: [64][64]
  static constexpr std::uint32_t gamma = 7 * kTile;  // f32 [128]
  // Magnitudes (range.cuh)
  // u32 [4]: kOdd, kScaled; 2^e_b (f32)
  static constexpr std::uint32_t odd = gamma + 4 * kHead, unit = odd + 4;
  static constexpr std::uint32_t v_scale = odd + 16;              // bf16 [64]: 2^-e_k(i)
  static constexpr std::uint32_t o_scale = v_scale + 2 * kChunk;  // bf16 [64]: 2^e_q(i)
  static constexpr std::uint32_t end = o_scale + 2 * kChunk, tail = end - gamma;
  static constexpr std::uint32_t bytes = (end + 127) / 128 * 128;
};
static_assert(Packet::bytes == 58240 && Packet::end % 16 == 0);

FLA_BOTH constexpr std::uint32_t swizzled(std::uint32_t row, std::uint32_t byte_column) {
  return row * 128 + (byte_column ^ ((row & 7) << 4));
}

/// Two elements of a call's 16-bit tensors.
template <Half16 type>
FLA_DEVICE F2 unpack(std::uint32_t x) {
  if constexpr (type == Half16::bf16) return unpack_bf16(x);
  return unpack_f16(x);
}

// ---- Wgmma descriptors

FLA_BOTH constexpr std::uint64_t descriptor(std::uint32_t at, std::uint32_t leading, std::uint32_t stride) {
  return std::uint64_t((at & 0x3ffff) >> 4) | std::uint64_t(leading >> 4) << 16 |
         std::uint64_t(stride >> 4) << 32 | std::uint64_t(1) << 62;
}
/// K-major: rows are M or N, eight rows take 1024 bytes. `rows` of a half tile: where the next 64 of k begin.
FLA_BOTH constexpr std::uint64_t k_major(std::uint32_t at) { return descriptor(at, 16, 1024); }
FLA_BOTH constexpr std::uint64_t k_step(std::uint32_t kk, std::uint32_t half = kTile) {
  return ((kk >> 2) * half + (kk & 3) * 32) >> 4;
}
/// MN-major: rows are k, column blocks of 64 are a tile apart.
FLA_BOTH constexpr std::uint64_t mn_major(std::uint32_t at) { return descriptor(at, kTile, 1024); }
FLA_BOTH constexpr std::uint64_t mn_step(std::uint32_t kk) { return (kk * 2048) >> 4; }

// ---- Fragments: the address a lane gives to
// ldmatrix

/// A (16 x 16) from a tile with rows M: matrices (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
/// Also where stmatrix puts two accumulator tiles (16 x 16), and with .trans a B fragment of a tile with rows
/// k. row: multiple of 8. Columns from c, a multiple of 16 below 64: XOR 2 c.
FLA_BOTH constexpr std::uint32_t fragment_a(std::uint32_t tile, std::uint32_t row, std::uint32_t lane) {
  return tile + (row + (lane & 15)) * 128 + ((((lane >> 4) & 1) ^ (lane & 7)) << 4);
}
/// Two B fragments (n 16 x k 16) from a tile with rows N: (n 0-7, k 0-7), (0-7, 8-15), (8-15, 0-7), (8-15,
/// 8-15).
FLA_BOTH constexpr std::uint32_t fragment_b(std::uint32_t tile, std::uint32_t row, std::uint32_t lane) {
  return tile + (row + ((lane >> 4) & 1) * 8 + (lane & 7)) * 128 + ((((lane >> 3) & 1) ^ (lane & 7)) << 4);
}
/// X^T as A (16 v x 16 tokens), or as an accumulator, from a tile with rows tokens, with .trans. `warp` has v
/// from 16 warp. Tokens from 16 j: plus 2048 j.
FLA_BOTH constexpr std::uint32_t fragment_vt(std::uint32_t warp, std::uint32_t lane) {
  return swizzled(((lane >> 4) & 1) * 8 + (lane & 7), (2 * warp + ((lane >> 3) & 1)) * 16);
}

}  // namespace fla::flash_kda
