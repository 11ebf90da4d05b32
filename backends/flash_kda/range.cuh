#pragma once

#include "backends/flash_kda/work.cuh"

/// Magnitudes. f16 holds 2^-24 to 2^16, f32 holds far more, and o and the state are linear in V and the first
/// state. So factors in f16 are taken times powers of two, which cost no accuracy:
///
///   gauge    of the chain, one a warpgroup (64 columns of V): registers hold 2^gauge S / 16. It changes
///            where S or V leave their windows.
///   a_i      of token i, where the norm of a key leaves its window: prep takes 2^-a_i k_i and 2^(2 a_i)
///            beta_i. The state is the same then, with 2^-a_i v_i for v_i.
///   w        of a chunk, where its betas leave their window, after that: T2 and so Kr and B are taken times
///            2^w, and what they are multiplied by times 2^-w.
///   b_i      of token i, where the norm of a query leaves its window: prep takes 2^-b_i q_i, and o_i is
///   2^b_i
///            times what comes of it.
///
/// Most chunks are *plain*: all of these are 0 and nothing is multiplied. A chunk that is not is marked `odd`
/// by prep, or found by warps that scan V as it comes, and takes another way through the chain, about twice
/// as long. S is looked at where an item begins, every 16 chunks, and in every chunk after one that was not
/// plain: with keys of norm 1, beta up to 2 and V below 2^7, |S / 16| below 2^9 stays below 2^14 for 16
/// chunks; prep marks chunks with longer keys, larger betas or gates above 0.
///
/// What is not finite. A NaN or Inf in k, beta or a gate at token t: prep takes the chunk as if it ended
/// before t, and stores NaN for Qh from t on and for gamma, so that o from t on, and the state, are NaN. In
/// q: NaN for that row of Qh. In V: the chain takes 0 for it, and writes NaN over its column of o from t on
/// and over its column of the state. Nothing before t, and no other column, is multiplied by it.
namespace fla::flash_kda {

/// What a packet says of its chunk: it is not plain; it has a_i, b_i or w.
inline constexpr std::uint32_t kOdd = 4, kScaled = 8;

// ---- Windows

inline constexpr std::uint32_t kInfinity = 0x7f800000;  ///< bits of an f32
inline constexpr float kNaN = __builtin_nanf("");
inline constexpr float kLongestKey = 1.1f, kShortestKey = 0x1p-6f;         ///< squares of norms
inline constexpr float kLongestQuery = 0x1p16f, kShortestQuery = 0x1p-8f;  ///< likewise, with 16 scale
inline constexpr float kWeakestBeta = 0x1p-10f;                            ///< of one token of the chunk
inline constexpr float kStrongestBeta = 2.1f;
inline constexpr float kWeakestDecay = 1.0001f;                             ///< of 8 tokens
inline constexpr std::uint32_t kSmallState = 0x0c00, kLargeState = 0x6000;  ///< f16: 2^-12, 2^9
inline constexpr std::int32_t kLookEvery = 16;                              ///< chunks
/// Largest magnitudes of V from 2^-5 to 2^7 are plain.
template <Half16 type>
inline constexpr std::uint32_t kSmallValue = type == Half16::bf16 ? 122 << 7 : 10 << 10;
template <Half16 type>
inline constexpr std::uint32_t kLargeValue = type == Half16::bf16 ? 134 << 7 : 22 << 10;
template <Half16 type>
FLA_DEVICE bool is_plain_value(std::uint32_t bits) {
  return bits - kSmallValue<type> < kLargeValue<type> - kSmallValue<type>;
}
template <Half16 type>
inline constexpr std::uint32_t kInfiniteValue = type == Half16::bf16 ? 0x7f80 : 0x7c00;

// ---- Powers of two

inline constexpr std::int32_t kFarthest = 120;  ///< exponents stay within

FLA_DEVICE std::int32_t clamped(std::int32_t exponent) {
  return exponent < -kFarthest ? -kFarthest : exponent > kFarthest ? kFarthest : exponent;
}
FLA_DEVICE float power(std::int32_t exponent) {
  return bits_f32(static_cast<std::uint32_t>(clamped(exponent) + 127) << 23);
}
/// Of the bits of an f32 that is not negative; -127: of zero or next to nothing.
FLA_DEVICE std::int32_t exponent_of(std::uint32_t bits) {
  return static_cast<std::int32_t>(bits >> 23) - 127;
}
FLA_DEVICE std::uint32_t magnitude_bits(float x) { return f32_bits(x) & 0x7fffffffu; }
FLA_DEVICE bool is_finite(float x) { return magnitude_bits(x) < kInfinity; }

template <int count>
FLA_DEVICE void times_power(float (&x)[count], std::int32_t exponent) {
  // In two steps: together they may be more than one factor holds.
  const float first = power(exponent >> 1), second = power(exponent - (exponent >> 1));
#pragma unroll
  for (int i = 0; i < count; ++i) x[i] = x[i] * first * second;
}

// ---- Largest magnitudes

/// Of 32 columns of V, from 32 `part` on, and `rows` tokens, by a warp: 0 where the largest magnitude is
/// plain, or else its bits, 1 for 0. Columns that nobody has are plain.
template <Half16 type>
FLA_DEVICE std::uint32_t strange_value(Smem values, std::uint32_t part, std::int32_t V, std::int32_t rows,
                                       std::uint32_t lane) {
  // Eight lanes in a row read rows r and r + 4: no two of them from the same banks.
  const std::uint32_t row = (lane >> 3) + (lane & 4), column = (part & 1) * 64 + 16 * (lane & 3);
  const Smem tile = values + (part >> 1) * kTile;
  std::uint32_t most = 0;
#pragma unroll 1  // few registers
  for (std::uint32_t token = row; token < kChunk; token += 8) {
    const U4 x = load_u32x4(tile + swizzled(token, column));
    if (static_cast<std::int32_t>(token) < rows)  // past the end there may be anything
      most = max_magnitude(max_magnitude(max_magnitude(max_magnitude(most, x.x), x.y), x.z), x.w);
  }
  const std::uint32_t low = most & 0xffff, high = most >> 16;
  most = largest(low > high ? low : high);
  if (is_plain_value<type>(most) || 32 * part >= static_cast<std::uint32_t>(V)) return 0;
  return most == 0 ? 1 : most;
}

/// How four warps of a warpgroup agree on a number: each has a place for its own, in shared memory. Whoever
/// uses one again knows that all have read it.
struct Agreement {
  static constexpr std::uint32_t bytes = 64;  ///< four numbers: of look_at_state and odd_factors two each
  Smem at;
  std::uint32_t barrier_id, w4, lane;

  /// The largest of all threads' x.
  FLA_DEVICE std::uint32_t largest_of(std::uint32_t x, std::uint32_t which) const {
    x = largest(x);
    if (lane == 0) store(at + 16 * which + 4 * w4, x);
    barrier(barrier_id, 128);
    const U4 all = load_u32x4(at + 16 * which);
    const std::uint32_t low = all.x > all.y ? all.x : all.y, high = all.z > all.w ? all.z : all.w;
    return uniform(low > high ? low : high);
  }
};

FLA_DEVICE void pack_state(const float (&s)[64], std::uint32_t (&a)[32]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) a[i] = pack_f16(s[2 * i], s[2 * i + 1]);
}

/// Looks at what is about to be multiplied. Where a state is too large or too small for f16, it gets another
/// gauge and is packed again. Inf becomes NaN: packed, it would be finite.
FLA_DEVICE void look_at_state(const Agreement& agreement, float (&s)[64], std::uint32_t (&a)[32],
                              std::int32_t& gauge) {
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) most = max_magnitude(most, a[i]);
  most = agreement.largest_of((most & 0xffff) > most >> 16 ? most & 0xffff : most >> 16, 0);
  if (most >= kSmallState && most < kLargeState) return;
  float exact = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    s[i] = is_finite(s[i]) ? s[i] : kNaN;
    exact = max_of(exact, bits_f32(magnitude_bits(s[i])));
  }
  const std::uint32_t bits = agreement.largest_of(f32_bits(exact), 1);
  if (bits == 0) return;  // zero, or nothing but NaN
  const std::int32_t change = clamped(gauge + 7 - exponent_of(bits)) - gauge;
  times_power(s, change);
  gauge += change;
  pack_state(s, a);
}

/// V^T of a chunk as the registers of a chain's warpgroup hold it: body(i, x): x are tokens `token(i)` and
/// the next one of row lane / 4 + 8 (i & 1). Times 2^(-a_i - w); zero past the end, and for what is not
/// finite.
template <Half16 type>
struct OddValues {
  Smem values;     ///< with the lane's fragment
  Smem magnitude;  ///< what the packet says from Packet::odd on
  std::int32_t rows;
  std::uint32_t lane;

  FLA_DEVICE bool scaled() const { return (uniform(load_u32(magnitude)) & kScaled) != 0; }
  /// 2^-w
  FLA_DEVICE float unit() const { return power(-static_cast<std::int32_t>(load_u32(magnitude + 4))); }
  FLA_DEVICE std::int32_t token(int i) const {
    return static_cast<std::int32_t>(8 * (i >> 1) + 2 * (lane & 3));
  }
  /// 2^-a_i, or with Packet::o_scale for `of` 2^b_i, of two tokens.
  FLA_DEVICE F2 scale(int i, std::uint32_t of = Packet::v_scale) const {
    return unpack_bf16(load_u32(magnitude + of - Packet::odd + 2 * token(i)));
  }
  template <class Body>
  FLA_DEVICE void raw(Body&& body) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t v[4] = {0, 0, 0, 0};
      if (rows > 0) ldmatrix_trans(v, values + j * 2048);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const F2 x = unpack<type>(v[i]);
        const std::int32_t at = token(4 * j + i);
        body(4 * j + i, F2{at < rows ? x.x : 0, at + 1 < rows ? x.y : 0});
      }
    }
  }
  template <class Body>
  FLA_DEVICE void operator()(Body&& body) const {
    const bool is_scaled = scaled();
    const float all = is_scaled ? unit() : 1;
    raw([&](int i, F2 x) {
      F2 factor{1, 1};
      if (is_scaled) factor = scale(i);
      body(i, F2{is_finite(x.x) ? x.x * (factor.x * all) : 0, is_finite(x.y) ? x.y * (factor.y * all) : 0});
    });
  }
  /// The first token of the thread's two rows, row lane / 4 + 8 h in first[h], that is not finite; kChunk:
  /// none.
  FLA_DEVICE void find_lost(float (&first)[2]) const {
    first[0] = first[1] = kChunk;
    raw([&](int i, F2 x) {
      const auto at = static_cast<float>(token(i));
      if (!is_finite(x.y)) first[i & 1] = -max_of(-first[i & 1], -at - 1);
      if (!is_finite(x.x)) first[i & 1] = -max_of(-first[i & 1], -at);
    });
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int mask = 1; mask < 4; mask *= 2) first[h] = -max_of(-first[h], -shuffle_xor(first[h], mask));
  }
};

/// Of a chunk that is not plain, nothing being on its way: what the products to come multiply, Y^T / 16 and
/// V^T, both times 2^(gauge - w). Takes another gauge first: the largest factor gets close to f16's end, so
/// that what is far smaller keeps its bits; 0 again where the chunk could be plain. rescale(by how much): the
/// gauge changes.
template <Half16 type, class Rescale>
FLA_DEVICE void odd_factors(const Agreement& agreement, const OddValues<type>& values, float (&y)[32],
                            std::int32_t& gauge, std::uint32_t (&ya)[16], std::uint32_t (&v)[16],
                            Rescale&& rescale) {
  const bool scaled = values.scaled();
  if (scaled) {
    const float unit = values.unit();
#pragma unroll
    for (int i = 0; i < 32; ++i) y[i] *= unit;
  }
  const auto size = [](float x) { return bits_f32(magnitude_bits(x)); };
  float most_v = 0, most_y = 0;
  values([&](int i, F2 x) {
    const float left = x.x * power(gauge), right = x.y * power(gauge);
    most_v = max_of(most_v, max_of(size(left), size(right)));
    most_y = max_of(
        most_y, max_of(size(fma_of(left, 0.0625f, -y[2 * i])), size(fma_of(right, 0.0625f, -y[2 * i + 1]))));
  });
  const std::uint32_t v_bits = agreement.largest_of(f32_bits(most_v), 2),
                      y_bits = agreement.largest_of(f32_bits(most_y), 3);
  const std::int32_t of_v = exponent_of(v_bits), of_y = exponent_of(y_bits), most = of_v > of_y ? of_v : of_y;
  std::int32_t change = 0;
  if (!scaled && of_v - gauge >= -5 && of_v - gauge < 7 && of_y - gauge < 8)
    change = -gauge;
  else if ((v_bits | y_bits) != 0)
    change = clamped(gauge + 13 - most) - gauge;
  gauge += change;
  times_power(y, change);
  rescale(change);
  values([&](int i, F2 x) {
    const float left = x.x * power(gauge), right = x.y * power(gauge);
    ya[i] = pack_f16(fma_of(left, 0.0625f, -y[2 * i]), fma_of(right, 0.0625f, -y[2 * i + 1]));
    v[i] = pack_f16(left, right);
  });
}

}  // namespace fla::flash_kda
