#pragma once

#include "backends/flash_kda/barriers.cuh"
#include "backends/flash_kda/task.cuh"

/// Magnitudes. f16 holds 2^-24 to 2^16, f32 holds far more, and o and the state are linear in V and the first
/// state. So factors in f16 are taken times powers of two, which cost no accuracy:
///
///   gauge    of the chain, one a warpgroup (64 columns of V): registers hold 2^gauge S / 16. It changes
///            where S or V leave their windows.
///   e_k(i)   of token i, where the norm of a key leaves its window: prep takes 2^-e_k k_i and 2^(2 e_k)
///            beta_i. The state is the same then, with 2^-e_k v_i for v_i.
///   e_b      of a chunk, where its betas leave their window, after that: T2 and so K^r and B are taken times
///            2^e_b, and what they are multiplied by times 2^-e_b.
///   e_q(i)   of token i, where the norm of a query leaves its window: prep takes 2^-e_q q_i, and o_i is what
///            comes of it times 2^e_q.
///
/// Most chunks are *plain*: all of these are 0 and nothing is multiplied. A chunk that is not is marked `odd`
/// by prep, or other warps find its V strange before the chain begins with it. Such a chunk takes another
/// path through the chain, about twice as long. S is looked at where an item begins, every 16 chunks, and
/// after every chunk that was not plain: with keys of norm 1, beta up to 2 and V below 2^7, |S / 16| below
/// 2^9 stays below 2^14 for 16 chunks; prep marks chunks with longer keys, larger betas or gates above 0.
///
/// What is not finite. A NaN or Inf in k, beta or a gate at token t: prep takes the chunk as if it ended
/// before t, and stores NaN for Q^ from t on and for gamma, so that o from t on, and the state, are NaN. In
/// q: NaN for that row of Q^. In V: the chain takes 0 for it where it makes o, and writes NaN over its column
/// of o from t on; in Y it takes NaN, which makes its column of the state NaN. Nothing before t, and no other
/// column, is multiplied by it.
namespace fla::flash_kda {

/// What a packet says of its chunk: it is not plain; it has e_k, e_q or e_b.
inline constexpr std::uint32_t kOdd = 4, kScaled = 8;

// ---- Windows

inline constexpr std::uint32_t kInfinity = 0x7f800000;  ///< bits of an f32
inline constexpr float kNaN = __builtin_nanf("");
inline constexpr float kWeakestBeta = 0x1p-10f;  ///< of one token of the chunk
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

/// Whether values are out of the ordinary, by the largest magnitudes of a warp's pairs of them.
template <Half16 type>
FLA_DEVICE bool is_strange(std::uint32_t most) {
  const std::uint32_t low = most & 0xffff, high = most >> 16;
  return !is_plain_value<type>(largest(low > high ? low : high));
}
/// One warp: sets strange[part] to whether columns 32 `part` to 32 `part` + 31 of V are out of the ordinary
/// in the first `rows` tokens.
template <Half16 type>
FLA_DEVICE void scan(Smem values, std::uint32_t part, std::int32_t V, std::int32_t rows, std::uint32_t lane,
                     Smem strange) {
  // Eight lanes in a row read rows r and r + 4: no two of them from the same banks.
  const std::uint32_t row = (lane >> 3) + (lane & 4), column = (part & 1) * 64 + 16 * (lane & 3);
  const Smem from = values + (part >> 1) * kTile + swizzled(row, column);
  std::uint32_t most = 0;
  const auto look_at = [&](const U4& x) {
    most = max_magnitude(max_magnitude(max_magnitude(max_magnitude(most, x.x), x.y), x.z), x.w);
  };
  if (rows >= kChunk) {
#pragma unroll 1  // as many at once as there are registers for, and little code
    for (std::uint32_t i = 0; i < 8; i += 4) {
      U4 x[4];
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j) x[j] = load_u32x4(from + 1024 * (i + j));
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j) look_at(x[j]);
    }
  } else {  // past the end there may be anything
    for (std::uint32_t i = 0; static_cast<std::int32_t>(row + 8 * i) < rows; ++i)
      look_at(load_u32x4(from + 1024 * i));
  }
  warp_sync();
  const bool found = static_cast<std::int32_t>(32 * part) < V && is_strange<type>(most);
  if (lane == 0) store(strange + 4 * part, found ? 1u : 0u);
}

/// How four warps of a warpgroup agree on a number: each has a place for its own, in shared memory. Whoever
/// uses one again knows that all have read it.
struct Agreement {
  static constexpr std::uint32_t bytes = 64;  ///< four numbers: of look_at_state and odd_y two each
  Smem at;
  Barrier barrier_id;
  std::uint32_t w4, lane;

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

/// A warp by itself: enough where all warps do the same, whatever they find.
struct AgreementOfAWarp {
  FLA_DEVICE std::uint32_t largest_of(std::uint32_t x, std::uint32_t) const { return largest(x); }
};

FLA_DEVICE void pack_state(const float (&s)[64], std::uint32_t (&a)[32]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) a[i] = pack_f16(s[2 * i], s[2 * i + 1]);
}

/// The largest magnitude of a packed state, in f16.
template <class Agreement>
FLA_DEVICE std::uint32_t most_of_state(const Agreement& agreement, const std::uint32_t (&a)[32]) {
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) most = max_magnitude(most, a[i]);
  return agreement.largest_of((most & 0xffff) > most >> 16 ? most & 0xffff : most >> 16, 0);
}
/// By how much the gauge of a state has to change so that f16 holds it. most: most_of_state.
template <class Agreement>
FLA_DEVICE std::int32_t change_of_gauge(const Agreement& agreement, std::uint32_t most, const float (&s)[64],
                                        std::int32_t gauge) {
  if (most >= kSmallState && most < kLargeState) return 0;
  float exact = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) exact = max_of(exact, is_finite(s[i]) ? bits_f32(magnitude_bits(s[i])) : 0);
  const std::uint32_t bits = agreement.largest_of(f32_bits(exact), 1);
  if ((bits | most) == 0) return 0;  // zero
  const std::int32_t to = bits == 0 ? 0 : clamped(gauge + 7 - exponent_of(bits));
  // What is not finite is not plain: packed, Inf would be finite.
  return clamped((to == 0 && most >= kLargeState ? 1 : to) - gauge);
}
/// Looks at a state before it is multiplied.
template <class Agreement>
FLA_DEVICE std::int32_t look_at_state(const Agreement& agreement, const float (&s)[64], std::int32_t gauge) {
  std::uint32_t a[32];
  pack_state(s, a);  // half as many numbers
  return change_of_gauge(agreement, most_of_state(agreement, a), s, gauge);
}

/// S in f16 with another gauge. Inf becomes NaN, and so does its column with the products.
FLA_DEVICE void pack_state(const float (&s)[64], std::int32_t change, std::uint32_t (&a)[32]) {
  const float factor = power(change);
  const auto packed = [&](float x) { return is_finite(x) ? x * factor : kNaN; };
#pragma unroll
  for (int i = 0; i < 32; ++i) a[i] = pack_f16(packed(s[2 * i]), packed(s[2 * i + 1]));
}

/// V^T of a chunk as the registers of a chain's warpgroup hold it: body(i, x): x are tokens `token(i)` and
/// the next one of row lane / 4 + 8 (i & 1). Times 2^(-e_k - e_b).
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
    const Smem from = kept(values);  // loaded each time: kept from one to the next it would take registers
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t v[4] = {0, 0, 0, 0};
      if (there) ldmatrix_trans(v, from + j * 2048);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        body(4 * j + i, unpack<type>(v[i]));
      }
      warp_sync();  // one after the other: registers are few
    }
  }
  template <class Body>
  FLA_DEVICE void operator()(Body&& body) const {
    const bool is_scaled = scaled();
    const float all = is_scaled ? unit() : 1;
    raw([&](int i, F2 x) {
      F2 factor{1, 1};
      if (is_scaled) factor = scale(i);
      body(i, F2{x.x * (factor.x * all), x.y * (factor.y * all)});
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

/// Of a chunk that is not plain, nothing being on its way: Y^T / 16 times 2^(gauge - e_b), to be multiplied.
/// Takes another gauge first: the largest factor gets close to f16's end, so that what is far smaller keeps
/// its bits; 0 again where the chunk could be plain. rescale(by how much): the gauge changes.
template <Half16 type, class Rescale>
FLA_DEVICE void odd_y(const Agreement& agreement, const OddValues<type>& values, float (&y)[32],
                      std::int32_t& gauge, std::uint32_t (&ya)[16], Rescale&& rescale) {
  const bool scaled = values.scaled();
  if (scaled) {
    const float unit = values.unit();
#pragma unroll
    for (int i = 0; i < 32; ++i) y[i] *= unit;
  }
  const auto size = [](float x) { return is_finite(x) ? bits_f32(magnitude_bits(x)) : 0; };
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
    change = clamped(clamped(gauge + 13 - most) - gauge);
  gauge += change;
  times_power(y, change);
  rescale(change);
  values([&](int i, F2 x) {
    const auto less = [&](float value, float product) {
      return is_finite(value) ? fma_of(value * power(gauge), 0.0625f, -product) : kNaN;
    };
    ya[i] = pack_f16(less(x.x, y[2 * i]), less(x.y, y[2 * i + 1]));
  });
}
/// Then V^T times 2^(gauge - e_b), 0 for what is not finite.
template <Half16 type>
FLA_DEVICE void odd_v(const OddValues<type>& values, std::int32_t gauge, std::uint32_t (&v)[16]) {
  values([&](int i, F2 x) {
    const auto scaled = [&](float value) { return is_finite(value) ? value * power(gauge) : 0; };
    v[i] = pack_f16(scaled(x.x), scaled(x.y));
  });
}

}  // namespace fla::flash_kda
