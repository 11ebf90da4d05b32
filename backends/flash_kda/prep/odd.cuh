#pragma once

#include "backends/flash_kda/prep/votes.cuh"

/// Step 2 again, for tasks with magnitudes out of the ordinary (range.cuh): exponents of keys, queries and
/// betas, and what is not finite. Rarely run, and not on the way of other tasks.
namespace fla::flash_kda {

/// A warp its 8 tokens: factors and betas times powers of two, which go into the packet; from the first token
/// on whose key, beta or gate is not finite it is as if the sequence had ended. Leaves in the warp's vote,
/// from kLost on, for which of the 8 tokens Q^ is to be NaN, a bit each, and in the next bit whether gamma
/// is. The additive rule mixes no channels: only those that are not finite are as if they had ended, and lost
/// in gamma. Raw pairs: queries and keys themselves are multiplied by their powers of two.
template <Half16 type, GateKind kind, Rule rule>
FLA_DEVICE void prep_odd(Smem smem, std::uint32_t turn, Smem x0, std::uint32_t warp, std::uint32_t lane,
                         std::uint32_t rows, float (&a)[8][4], std::uint32_t votes) {
  const Smem betas = smem + Prep::beta + Prep::betas * turn, factors = factors_of<kind>(smem, turn);
  const std::uint32_t block = warp >> 2;
  // Decays wait in the packet meanwhile: registers are few.
  const Smem decay = smem + Prep::decay + warp * (8 * Prep::row) + lane * Prep::lane;
  constexpr bool is_raw = has_raw_pairs(kind);
  if constexpr (!is_raw) {
#pragma unroll
    for (int j = 0; j < 8; ++j) store(decay + j * Prep::row, F4{a[j][0], a[j][1], a[j][2], a[j][3]});
  }
  const auto raise = [](std::uint32_t& most, float x) {
    most = magnitude_bits(x) > most ? magnitude_bits(x) : most;
  };
  constexpr bool delta = rule == Rule::delta;
  // The largest channel of k between 2^-6 and 1 (or 2^5), of q between 2^-5 and 2^4, as norms within their
  // windows have them, or to 2^-2 and 1.
  const auto exponent = [](std::uint32_t most, std::int32_t least, std::int32_t end, std::int32_t to) {
    const std::int32_t x = exponent_of(most);
    return most == 0 || most >= kInfinity || (x >= least && x < end) ? 0 : clamped(x - to);
  };
  const std::uint32_t first_gate = is_raw ? load_u32(smem + Prep::first_lost) : kChunk;
  std::uint32_t first = first_gate, lost = 0, most_b = 0;
#pragma unroll 1
  for (std::uint32_t j = 0; j < 8; ++j) {
    const std::uint32_t token = 8 * warp + j;
    const F2 f = load_f32x2(factors + Prep::factors * token);
    const float beta = delta ? load_f32(betas + 4 * token) : 1.0f;
    std::uint32_t most_q = 0, most_k = 0, most_a = 0;
    float q[4], k[4];
    unpack4<type>(load_u32x2(row_of(x0, j) + q_rows(block)), q);
#pragma unroll
    for (int c = 0; c < 4; ++c) raise(most_q, q[c] * f.x);
    unpack4<type>(load_u32x2(row_of(x0, j) + k_rows(block)), k);
#pragma unroll
    for (int c = 0; c < 4; ++c) raise(most_k, k[c] * f.y);
    if constexpr (!is_raw) {
      float x[4];
      load4(decay + j * Prep::row, x);
#pragma unroll
      for (int c = 0; c < 4; ++c) raise(most_a, x[c]);
    }
    most_q = largest(most_q), most_k = largest(most_k), most_a = largest(most_a);
    if (token >= rows) most_q = most_k = most_a = 0;
    if (token < first && (most_k >= kInfinity || most_a >= kInfinity || !is_finite(beta))) first = token;
    if (most_q >= kInfinity) lost |= 1u << j;
    const std::int32_t key = exponent(most_k, -6, delta ? 1 : 6, -2), query = exponent(most_q, -5, 5, 0);
    if (key != 0 || query != 0) votes |= kScaled;
    const float scaled_beta = beta * power(key) * power(key);
    if (delta && is_finite(scaled_beta)) raise(most_b, scaled_beta);
    if constexpr (is_raw) {
#pragma unroll
      for (int c = 0; c < 4; ++c) q[c] *= power(-query), k[c] *= power(-key);
      if (query != 0) store_pairs<type>(row_of(x0, j) + q_rows(block), q);
      if (key != 0) store_pairs<type>(row_of(x0, j) + k_rows(block), k);
    }
    warp_sync();  // all lanes have read
    if (lane == 0) {
      if (!is_raw) store(factors + Prep::factors * token, F2{f.x * power(-query), f.y * power(-key)});
      if (delta) store(betas + 4 * token, scaled_beta);
      store(smem + Packet::v_scale + 2 * token,
            static_cast<std::uint16_t>(f32_bits(power(delta ? -key : key)) >> 16));
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
  std::int32_t e_b = 0;
  if (exponent_b != 0 && (exponent_b < 127 - 6 || exponent_b > 127 + 2))
    e_b = clamped(127 - static_cast<std::int32_t>(exponent_b)), votes |= kScaled;
  if (warp == 0 && lane == 0) {
    store(smem + Packet::unit, power(e_b));
  }
  barrier(Barrier::scaling, Prep::threads);  // votes may be written again
  if (first < kChunk) lost |= 256;
  bool lost_channels[4] = {};
#pragma unroll
  for (std::uint32_t j = 0; j < 8; ++j) {
    const std::uint32_t token = 8 * warp + j;
    const Smem factor = factors + Prep::factors * token;
    if constexpr (!is_raw) load4(decay + j * Prep::row, a[j]);
    if (token >= first) {
      lost |= 1u << j;
      const Smem keys = row_of(x0, j) + k_rows(block);
      U2 raw = delta ? U2{0, 0} : load_u32x2(keys);
      float k[4];
      unpack4<type>(raw, k);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (!is_finite(k[c])) (c < 2 ? raw.x : raw.y) &= (c & 1) != 0 ? 0xffffu : 0xffff0000u;
        lost_channels[c] |= !is_finite(k[c]);
        if constexpr (!is_raw) {
          lost_channels[c] |= !is_finite(a[j][c]);
          a[j][c] = is_finite(a[j][c]) ? a[j][c] : 1;
        }
      }
      store(keys, raw);
      if (delta && lane == 0) store(betas + 4 * token, 0.0f), store(factor + Prep::of_key, 0.0f);
    }
    if ((lost >> j & 1) != 0) {
      store(row_of(x0, j) + q_rows(block), U2{0, 0});
      if (lane == 0) store(factor, 0.0f);
    }
  }
  if constexpr (!delta) {
    const auto lanes = [&](int c) {
      return bits_of_all(lost_channels[c] || first_gate < kChunk ? 1u << lane : 0);
    };
    const U4 all{lanes(0), lanes(1), lanes(2), lanes(3)};
    if (lane == 0) store(smem + Prep::lost_channels + 16 * warp, all);
  }
  // As steep as it was: what comes before the first token that is not finite keeps its bits.
  if constexpr (is_raw) {
    if (lane == 0) store(smem + Prep::vote + 4 * warp, votes | lost << kLost);
  } else {
    prep_tally(smem, warp, lane, a, false, votes | lost << kLost);
  }
  barrier(Barrier::scaling, Prep::threads);
}

/// After step 3: NaN where prep_odd found that Q^ and gamma are lost.
template <Rule rule>
FLA_DEVICE void prep_lose(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane, std::uint32_t lost) {
  constexpr std::uint32_t nan = 0x7fff7fff;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    if ((lost >> j & 1) != 0) store(row_of(x0, j) + Packet::qh, U2{nan, nan});
  if (warp != 7 || (lost & 256) == 0) return;
  const Smem gamma = smem + Packet::gamma + lane * Prep::lane;
  std::uint32_t channels[4] = {};
#pragma unroll 1
  for (std::uint32_t i = 0; rule == Rule::additive && i < 8; ++i) {
    const U4 lanes = load_u32x4(smem + Prep::lost_channels + 16 * i);
    channels[0] |= lanes.x, channels[1] |= lanes.y, channels[2] |= lanes.z, channels[3] |= lanes.w;
  }
#pragma unroll
  for (std::uint32_t c = 0; c < 4; ++c)
    if (rule == Rule::delta || (channels[c] >> lane & 1) != 0) store(gamma + 4 * c, kNaN);
}

}  // namespace fla::flash_kda
