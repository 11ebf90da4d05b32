#pragma once

#include "backends/flash_kda/barriers.cuh"
#include "backends/flash_kda/task.cuh"

/// Magnitudes. f16 holds 2^-24 to 2^16, f32 holds far more, and o and the state are linear in V and the first
/// state. So factors in f16 are taken times powers of two, which cost no accuracy:
///
///   gauge    of the chain, one a warp: registers hold 2^gauge S / 16. It changes where S or Y leave their
///            windows. A warp has 16 columns of V and of S, and nothing of the chain mixes columns.
///   e_k(i)   of token i, where the norm of a key leaves its window: prep takes 2^-e_k k_i and 2^(2 e_k)
///            beta_i. The state is the same then, with 2^-e_k v_i for v_i.
///   e_b      of a chunk, where its betas leave their window, after that: T2 and so K^r and B are taken times
///            2^e_b, and what they are multiplied by times 2^-e_b.
///   e_q(i)   of token i, where the norm of a query leaves its window: prep takes 2^-e_q q_i, and o_i is what
///            comes of it times 2^e_q.
///
/// Most chunks are *plain*: all of these are 0 and nothing is multiplied. Prep marks the other chunks that it
/// knows of as `odd`. For the rest a warp of the chain looks at its Y^T / 16 in f16: a chunk is plain when
/// all numbers are below 2 and one is 2^-11 or larger, which the or of their bits tells. The products do not
/// wait for the answer, and all four warps of a warpgroup issue them, as wgmma wants. A thread with a number
/// of 2 or more gives zeros for all its factors. A warp whose chunk is not plain leaves the loop after the
/// products and adds what they lack by mma: those factors, and what f16 rounds off small ones.
///
/// The additive rule has Y = V, and B times 16, so that Y^T / 16 is what both products take; keys may be of
/// norm 32, v_i is multiplied by 2^e_k(i), and there are no betas.
///
/// S is looked at where an item begins, every 10 chunks, and after every chunk that was not plain. That is
/// enough: a look passes elements of S / 16 below 2^6, so that a column's norm is below 725. A plain chunk
/// has keys of norm 1.05, beta up to 2.1 and |Y / 16| below 2, so that each of its 64 tokens adds at
/// most 4.41 to the norm: 2830 in 10 chunks. The norm stays below 3555, and |V| <= 16 (1.05 * 3555 + 2) below
/// f16's 65504. With the additive rule a look passes elements below 2^13, and a plain chunk adds at most 64 *
/// 32 * 2 to each: the state stays below 49152. Prep marks chunks with longer keys, larger betas or gates
/// above 0.
///
/// What is not finite. A NaN or Inf in k, beta or a gate at token t: prep takes the chunk as if it ended
/// before t, and stores NaN for Q^ from t on and for gamma, so that o from t on, and the state, are NaN. In
/// q: NaN for that row of Q^. In V: the chain takes 0 for it where it makes o, and writes NaN over its column
/// of o from t on; in Y it takes NaN, which makes its column of the state NaN. Nothing before t, and no other
/// column, is multiplied by it.
namespace fla::flash_kda {

/// What a packet says of its chunk: it is not plain; it has e_k, e_q or e_b.
inline constexpr std::uint32_t kOdd = 0x4000, kScaled = 8;

// ---- Windows

inline constexpr std::uint32_t kInfinity = 0x7f800000;  ///< bits of an f32
inline constexpr float kNaN = __builtin_nanf("");
inline constexpr float kWeakestBeta = 0x1p-10f;  ///< of one token of the chunk
inline constexpr float kStrongestBeta = 2.1f;
inline constexpr float kWeakestDecay = 1.0001f;    ///< of 8 tokens
inline constexpr float kWeakestLog = 0x1p-16f;     ///< of one token, base 2
inline constexpr float kSmallestState = 0x1p-12f;  ///< of S / 16
inline constexpr std::int32_t kLookEvery = 10;     ///< chunks
/// Bits of the exponents of f16 pairs, or-ed: one of them is 2 or larger; one is 2^-11 or larger.
inline constexpr std::uint32_t kLargeFactors = 0x40004000, kFactors = 0x30003000;
FLA_DEVICE bool are_plain(std::uint32_t bits) {
  return (bits & kLargeFactors) == 0 && (bits & kFactors) != 0;
}
/// The largest state / 16 that products are sure to leave in f16's range until the next look.
template <Rule rule>
inline constexpr float kLargestState = rule == Rule::delta ? 0x1p6f : 0x1p13f;

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
  const float factor = power(exponent);
#pragma unroll
  for (int i = 0; i < count; ++i) x[i] *= factor;
}

// ---- Largest magnitudes

FLA_DEVICE void pack_state(const float (&s)[64], std::uint32_t (&a)[32]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) a[i] = pack_f16(s[2 * i], s[2 * i + 1]);
}

/// By how much a gauge has to change so that f16 holds a state. bits: of the largest magnitude that is
/// finite; lost: there are others. What is not finite is not plain: packed, Inf would be finite.
FLA_DEVICE std::int32_t change_of_gauge(std::uint32_t bits, bool lost, std::int32_t gauge) {
  const std::int32_t to = bits == 0 ? 0 : clamped(gauge + 7 - exponent_of(bits));
  return clamped((to == 0 && lost ? 1 : to) - gauge);
}

/// Numbers on their way through local memory, to the code for what few chunks need and back: in between they
/// have other registers than in the loop, which ptxas then leaves alone.
template <class T, int count>
struct Held {
  volatile T at[count];
  FLA_DEVICE void take(const T (&x)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) at[i] = x[i];
  }
  FLA_DEVICE void give(T (&x)[count]) const {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = at[i];
  }
};

/// All bits of a warp's packed numbers.
template <int count>
FLA_DEVICE std::uint32_t bits_of(const std::uint32_t (&a)[count]) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) bits |= a[i];
  return bits_of_all(bits);
}
/// Whether a warp's part of a state needs no closer look: most do not.
template <Rule rule>
FLA_DEVICE bool is_plain_state(const std::uint32_t (&a)[32]) {
  if constexpr (rule == Rule::delta) return are_plain(bits_of(a));
  std::uint32_t bits = 0, large = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) bits |= a[i], large |= a[i] & a[i] << 1 & a[i] << 2;  // 2^13 or more
  return (bits_of_all(large) & 0x40004000) == 0 && (bits_of_all(bits) & 0x70007000) != 0;
}
/// Looks at a state before it is multiplied, and takes another gauge for it where f16 does not hold it.
template <Rule rule>
FLA_DEVICE void settle(float (&s)[64], std::int32_t& gauge) {
  std::uint32_t a[32];
  pack_state(s, a);  // half as many numbers
  if (is_plain_state<rule>(a)) return;
  rarely();
  Held<float, 64> held;
  held.take(s);
  float most = 0;
  bool lost = false;
#pragma unroll 16
  for (int i = 0; i < 64; ++i) {
    const float x = held.at[i];
    if (is_finite(x)) most = max_of(most, bits_f32(magnitude_bits(x)));
    lost = lost || !is_finite(x);
  }
  const std::uint32_t bits = largest(f32_bits(most));
  lost = any(lost);
  if (!lost && (bits == 0 || (bits >= f32_bits(kSmallestState) && bits < f32_bits(kLargestState<rule>))))
    return;
  const std::int32_t change = change_of_gauge(bits, lost, gauge);
  const float factor = power(change);
#pragma unroll 16
  for (int i = 0; i < 64; ++i) held.at[i] = is_finite(held.at[i]) ? held.at[i] * factor : kNaN;
  gauge += change;
  held.give(s);
}

/// V^T of a chunk as the registers of a chain's warpgroup hold it: body(i, x): x are tokens `token(i)` and
/// the next one of row lane / 4 + 8 (i & 1).
template <Half16 type>
struct OddValues {
  Smem values;     ///< with the lane's fragment
  Smem magnitude;  ///< what the packet says from Packet::odd on
  bool there;      ///< or all of it is zero
  std::uint32_t lane;

  FLA_DEVICE bool scaled() const { return (uniform(load_u32(magnitude)) & kScaled) != 0; }
  /// 2^-e_b
  FLA_DEVICE float unit() const {
    return power(-exponent_of(load_u32(magnitude + Packet::unit - Packet::odd)));
  }
  FLA_DEVICE std::int32_t token(int i) const {
    return static_cast<std::int32_t>(8 * (i >> 1) + 2 * (lane & 3));
  }
  /// 2^-e_k, or with Packet::o_scale for `of` 2^e_q, of two tokens.
  FLA_DEVICE F2 scale(int i, std::uint32_t of = Packet::v_scale) const {
    return unpack_bf16(load_u32(magnitude + of - Packet::odd + 2 * token(i)));
  }
  template <class Body>
  FLA_DEVICE void raw(Body&& body) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t v[4] = {0, 0, 0, 0};
      if (there) ldmatrix_trans(v, values + j * 2048);
#pragma unroll
      for (int i = 0; i < 4; ++i) body(4 * j + i, i & 1, unpack<type>(v[i]));
    }
  }
  /// Times 2^(-e_k - e_b).
  template <class Body>
  FLA_DEVICE void operator()(Body&& body) const {
    const bool is_scaled = scaled();
    const float all = is_scaled ? unit() : 1;
    raw([&](int i, int, F2 x) {
      F2 factor{1, 1};
      if (is_scaled) factor = scale(i);
      body(i, F2{x.x * (factor.x * all), x.y * (factor.y * all)});
    });
  }
  /// The first token of the thread's two rows, row lane / 4 + 8 h in first[h], that is not finite; kChunk:
  /// none.
  FLA_DEVICE void find_lost(float (&first)[2]) const {
    first[0] = first[1] = kChunk;
    raw([&](int i, int h, F2 x) {
      const auto at = static_cast<float>(token(i));
      if (!is_finite(x.y)) first[h] = -max_of(-first[h], -at - 1);
      if (!is_finite(x.x)) first[h] = -max_of(-first[h], -at);
    });
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int mask = 1; mask < 4; mask *= 2) first[h] = -max_of(-first[h], -shuffle_xor(first[h], mask));
  }
};

/// Of a chunk that is not plain, nothing being on its way: Y^T / 16 times 2^(gauge - e_b), to be multiplied.
/// Takes another gauge first: the largest factor gets close to f16's end, so that what is far smaller keeps
/// its bits; 0 again where the chunk could be plain. Returns by how much it changes. `added`: the products
/// have what f16 holds of the thread's factors, and the rest of these is wanted. y: of the delta rule alone.
template <Rule rule, Half16 type>
FLA_DEVICE std::int32_t odd_y(const OddValues<type>& values, const float (&y)[32], std::int32_t gauge,
                              bool added, std::uint32_t (&ya)[16]) {
  const bool scaled = values.scaled();
  const float unit = scaled && rule == Rule::delta ? values.unit() : 1;
  const auto product = [&](int i, float factor) { return rule == Rule::delta ? y[i] * factor : 0.0f; };
  const auto size = [](float x) { return is_finite(x) ? bits_f32(magnitude_bits(x)) : 0; };
  const auto less = [](float value, float by) {
    return is_finite(value) ? fma_of(value, 0.0625f, -by) : kNaN;
  };
  float most_v = 0, most_y = 0;
  values([&](int i, F2 x) {
    const float left = x.x * power(gauge), right = x.y * power(gauge);
    most_v = max_of(most_v, max_of(size(left), size(right)));
    most_y = max_of(
        most_y, max_of(size(less(left, product(2 * i, unit))), size(less(right, product(2 * i + 1, unit)))));
  });
  const std::uint32_t v_bits = largest(f32_bits(most_v)), y_bits = largest(f32_bits(most_y));
  const std::int32_t of_v = exponent_of(v_bits), of_y = exponent_of(y_bits), most = of_v > of_y ? of_v : of_y;
  std::int32_t change = 0;
  if (!scaled && ((of_v - gauge >= -7 && of_v - gauge < 7 && of_y - gauge < 8) ||
                  (of_y - gauge >= -11 && of_y - gauge < 1 && of_v - gauge < 15)))
    change = -gauge;
  else if ((v_bits | y_bits) != 0)
    change = clamped(clamped(gauge + 13 - most) - gauge);
  values([&](int i, F2 x) {
    const float factor = power(gauge + change), of_products = unit * power(change);
    const F2 there =
        added ? unpack_f16(pack_f16(less(x.x, product(2 * i, 1)), less(x.y, product(2 * i + 1, 1))))
              : F2{0, 0};
    ya[i] = pack_f16(less(x.x * factor, product(2 * i, of_products)) - there.x * power(change),
                     less(x.y * factor, product(2 * i + 1, of_products)) - there.y * power(change));
  });
  return change;
}
/// Then V^T times 2^(gauge - e_b), 0 for what is not finite.
template <Half16 type>
FLA_DEVICE void odd_v(const OddValues<type>& values, std::int32_t gauge, bool added, std::uint32_t (&v)[16]) {
  values([&](int i, F2 x) {
    const F2 there = added ? unpack_f16(pack_f16(x.x, x.y)) : F2{0, 0};
    const auto scaled = [&](float value, float less) {
      return is_finite(value) ? (value - less) * power(gauge) : 0;
    };
    v[i] = pack_f16(scaled(x.x, there.x), scaled(x.y, there.y));
  });
}

/// Of f16 pairs 0 for what is no number.
template <int count>
FLA_DEVICE void zero_lost(std::uint32_t (&a)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const F2 x = unpack_f16(a[i]);
    a[i] = pack_f16(is_finite(x.x) ? x.x : 0, is_finite(x.y) ? x.y : 0);
  }
}

/// B of add_products, 16 x 16 from k on and from n on, in tiles with rows k, a half of n each.
struct RowsOfK {
  Smem at;
  FLA_DEVICE void operator()(std::uint32_t (&b)[4], std::uint32_t k, std::uint32_t n,
                             std::uint32_t lane) const {
    ldmatrix_trans(b, fragment_a(at + n / 64 * kTile, k, lane) ^ (2 * (n & 63)));
  }
};
/// The same in a tile with rows n.
struct RowsOfN {
  Smem at;
  FLA_DEVICE void operator()(std::uint32_t (&b)[4], std::uint32_t k, std::uint32_t n,
                             std::uint32_t lane) const {
    ldmatrix(b, fragment_b(at, n, lane) ^ (2 * k));
  }
};
/// D = 2^change D + A B for the 16 rows of one warp: what wgmma adds for all four.
template <int count, class B>
FLA_DEVICE void add_products(float (&d)[count], std::int32_t change, const std::uint32_t (&a)[16],
                             std::uint32_t lane, const B& load_b) {
  times_power(d, change);
#pragma unroll
  for (int n = 0; n < count / 8; ++n) {
    float(&left)[4] = reinterpret_cast<float(&)[4]>(d[8 * n]);
    float(&right)[4] = reinterpret_cast<float(&)[4]>(d[8 * n + 4]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      std::uint32_t b[4];
      load_b(b, 16 * k, 16 * n, lane);
      mma<Half16::f16>(left, a + 4 * k, b[0], b[1]);
      mma<Half16::f16>(right, a + 4 * k, b[2], b[3]);
    }
  }
}

}  // namespace fla::flash_kda
