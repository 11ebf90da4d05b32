#pragma once

#include <algorithm>

#include "backends/cuda_decode/part.cuh"

/// Several tokens against one state S, which is read once for all of them. With d_t the decays of token t,
/// D_st = d_s+1 .. d_t, and tokens s before t, those of a ring (replay.cu) among them:
///
///     p_t = (D_0t k_t)^T S + sum N_ts u_s    u_t = beta_t (v_t - p_t)              N_ts = (D_st k_t)^T k_s
///     r_t = (D_0t q_t)^T S + sum M_ts u_s    o_t = r_t + (q_t^T k_t) u_t           M_ts = (D_st q_t)^T k_s
///
/// Decays are multiplied, never divided by: any gate will do. With Rule::additive u is v. With Rule::low_rank
/// it is v too, and w_t = (D_0,t-1 a_t)^T S + .. takes p's place: beside k_s u_s^T there is b_s w_s^T, with
/// pairs of its own.
///
/// A block has kParts tiles of a head's values, for which it makes the tokens' vectors once, in shared memory
/// and without norms. What waits for what, with a barrier between the rows:
///
///     vectors   some warps a token; the state is sent for meanwhile
///     pairs     a warp takes a token, N and M of it and all after it; factors: the warps that made the token
///     frames    a thread takes a channel: norms, scale and decays go into x and qd, decays into k
///     sums      over S, of all tokens
///     outputs   a thread takes a value: from token to token, u and o
///
/// Each of them is short, and a multiprocessor holds few blocks: what counts is the latency of dependent
/// instructions. So loops over tokens are unrolled, and all their loads are under way at once.
namespace fla::cuda {
inline namespace decode_parts {

/// Tiles of a head's values that a block has: heads have 64 values or more.
template <int tile>
inline constexpr int kParts = 2 * tile <= 64 ? 2 : 1;

/// N and M of a step's tokens: with the ring's tokens, and behind those with the step's own.
template <Rule rule, int tokens, int places>
struct Pairs {
  static constexpr int kVectors = rule == Rule::low_rank ? 2 : 1;  // of a token: k, and b
  float N[kVectors][tokens][places + tokens], M[kVectors][tokens][places + tokens];
};

/// The tokens of a step, at most so many, in a block of so many warps.
template <int most, int warps>
struct Makers {
  static constexpr int each = std::clamp(warps / most, 1, kWarps);  // warps that make a token
  static constexpr int rounds = (most * each + warps - 1) / warps;  // tokens that a warp makes
  static constexpr int at_once = warps / each;

  template <class Vectors, class Body>
  static __device__ void for_each(Vectors (&vectors)[rounds], int T, Body&& body) {
#pragma unroll
    for (int j = 0; j < rounds; ++j) {
      if (const int t = j * at_once + threadIdx.x / (32 * each); t < T) body(vectors[j], t);
    }
  }
};

/// keys[s]: those of the ring, in the frame of its last token.
template <Rule rule, int K, int most, int places, class Token>
__device__ void make_pairs(const float (*keys)[K], int count, const Token* tokens, int T, int warps,
                           Pairs<rule, most, places>& pairs) {
  constexpr int kEach = K / 32;
  const int lane = threadIdx.x % 32, c = lane * kEach;
#pragma unroll 1
  for (int source = threadIdx.x / 32; source < count + T - 1; source += warps) {
    const int s = source - count;  // of the step's tokens
    const int column = s < 0 ? source : places + s;
#pragma unroll
    for (int vector = 0; vector < Pairs<rule, most, places>::kVectors; ++vector) {
      const float* from = s < 0 ? keys[source] : tokens[s].k;
      if constexpr (rule == Rule::low_rank) from = vector == 0 ? from : tokens[s].b;
      float key[kEach], sums[2 * most] = {};
      read(from + c, 1, key);
#pragma unroll
      for (int t = 0; t < most; ++t) {
        if (t <= s || t >= T) continue;
        float x[kEach], qd[kEach], d[kEach];
        if constexpr (rule != Rule::additive) read(tokens[t].x + c, 1, x);
        read(tokens[t].qd + c, 1, qd);
        read(tokens[t].d + c, 1, d);
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          if constexpr (rule != Rule::additive) sums[2 * t] += x[e] * key[e];
          sums[2 * t + 1] += qd[e] * key[e];
          key[e] *= d[e];
        }
      }
      reduce_scatter<32, 1>(sums);
      constexpr int kCopies = 32 / (2 * most);
      const int t = lane / (2 * kCopies);
      if (lane % kCopies == 0 && t > s && t < T)
        (lane / kCopies % 2 == 0 ? pairs.N : pairs.M)[vector][t][column] = sums[0];
    }
  }
}

/// By a thread, for its channel: what meets the state, to before the first token. `decay` is that of what
/// comes between the state and this token; returned is that of all. With `to_end` what is added to the state
/// goes to after the last token.
template <Rule rule, int most, class Token>
__device__ float make_frames(Token* tokens, int T, int c, float decay, bool to_end) {
  float d[most];
#pragma unroll
  for (int t = 0; t < most; ++t) {
    if (t >= T) continue;
    Token& token = tokens[t];
    d[t] = token.d[c];
    if constexpr (rule != Rule::additive)
      token.x[c] *= (rule == Rule::low_rank ? 1 : token.factors.k) * decay;
    token.qd[c] *= token.factors.q * decay;
    decay *= d[t];
  }
  float after = 1;
#pragma unroll
  for (int t = most - 1; t >= 0; --t) {
    if (t >= T || !to_end) continue;
    tokens[t].k[c] *= after;
    if constexpr (rule == Rule::low_rank) tokens[t].b[c] *= after;
    after *= d[t];
  }
  return decay;
}

/// What a tile's values add to a state, of tokens in order: times k as it came, and times b.
template <Rule rule, int tokens, int tile>
struct Added {
  alignas(16) float u[tokens][tile], w[rule == Rule::low_rank ? tokens : 1][tile];
};

/// The sums of tokens over the state.
template <class Part, int tokens>
struct Sums {
  float x[tokens][Part::kShares][Part::tile], qd[tokens][Part::kShares][Part::tile];
};

/// By a thread, for its value, which is `index` of the block and `value` of its tile: tokens first to
/// last - 1, whose sums these are. u and w: what tokens add, those before `first` too. ring_u[s * ring_step]:
/// what those of the ring add. put(t, o).
template <Rule rule, int most, int places, class Sums, class Token, class Put>
__device__ void find_outputs(const DecodeCall& call, const Token* tokens, int first, int last, int index,
                             int value, const Sums& sums, const Pairs<rule, most, places>& pairs,
                             const float* ring_u, int ring_step, int count, float (&u)[most],
                             float (&w)[rule == Rule::low_rank ? most : 1], Put&& put) {
#pragma unroll
  for (int t = 0; t < most; ++t) {
    if (t < first || t >= last) continue;
    const auto& token = tokens[t];
    const Factors& factors = token.factors;
    float p = 0, r = 0, p_pairs = 0, r_pairs = 0, keys = 0;
    if constexpr (rule != Rule::additive) {
#pragma unroll
      for (const auto& share : sums.x[t - first]) p += share[value];
    }
#pragma unroll
    for (const auto& share : sums.qd[t - first]) r += share[value];
    if constexpr (places != 0) {
#pragma unroll 4
      for (int s = 0; s < count; ++s) {
        const float y = ring_u[s * ring_step];
        if constexpr (rule != Rule::additive) p_pairs += pairs.N[0][t][s] * y;
        r_pairs += pairs.M[0][t][s] * y;
      }
    }
#pragma unroll
    for (int s = 0; s < t; ++s) {
      const float of_query = pairs.M[0][t][places + s];
      if constexpr (rule != Rule::additive) p_pairs += pairs.N[0][t][places + s] * u[s];
      r_pairs += of_query * u[s];
      if constexpr (rule == Rule::low_rank) {
        p_pairs += pairs.N[1][t][places + s] * w[s];
        r_pairs += pairs.M[1][t][places + s] * w[s];
      }
      if constexpr (rule == Rule::additive) keys += of_query * tokens[s].factors.k;
    }
    p += (rule == Rule::low_rank ? 1 : factors.k) * p_pairs;
    r += factors.q * r_pairs;
    const float v = token.v[index], added = rule == Rule::delta ? factors.beta * (v - p) : v;
    float o = r + factors.qk * added;
    u[t] = added * factors.k;
    if constexpr (rule == Rule::low_rank) {
      w[t] = p;
      o += factors.qb * p;
    }
    // With normalize there are no decays.
    put(t, rule == Rule::additive && call.normalize ? o / (factors.divisor + factors.q * keys) : o);
  }
}

}  // namespace decode_parts
}  // namespace fla::cuda
