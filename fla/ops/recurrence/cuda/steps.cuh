#pragma once

#include <type_traits>

#include "fla/ops/recurrence/cuda/states.cuh"
#include "fla/ops/recurrence/cuda/tokens.cuh"

/// The recurrence as it is written down, token by token: any sizes, any strides, any gate, any rule.
///
///     block   one head of one sequence, 32 of its values; 128 threads, 8 tokens at a time
///     thread  one value, every fourth group of four keys; its part of the state stays in registers
///
///              keys  0..3  4..7  8..11  12..15  16..19 ..        per token, for each value (Rule::delta):
///     value 0        p=0   p=1   p=2    p=3     p=0    ..          s *= d
///     value 1        p=0   ..        (4 lanes a value,             u = beta (v - sum k s)       sum over p
///     ..                              8 values a warp)             s += k u,  o = sum q s       sum over p
///
///     shared memory   q k d [8 tokens][KP + 8], v o [8][32]; with Rule::low_rank a b like k
///
/// The tokens' vectors are made by the whole block, then 8 steps run without a barrier.
namespace fla::cuda {

inline constexpr int kStepTokens = 8, kStepValues = 32;

template <int KP>
using KeyTile = float[kStepTokens * kRow<KP>];

/// The pair's tiles, where the rule has one.
template <int KP, Rule rule>
struct PairTiles {};
template <int KP>
struct PairTiles<KP, Rule::low_rank> {
  alignas(16) KeyTile<KP> a, b;
};

template <int KP, Rule rule>
struct StepTiles {
  alignas(16) KeyTile<KP> q, k, d;
  PairTiles<KP, rule> pair;
  float v[kStepTokens][kStepValues], o[kStepTokens][kStepValues], beta[kStepTokens];
  float z[KP], divisors[kStepTokens];  // with normalize
};

/// What a thread has of a block's state.
struct StepPlace {
  int head, first_value;
  int column = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;

  /// Of element i of the thread's state.
  __device__ int key(int i) const { return i / 4 * 16 + part * 4 + i % 4; }
  __device__ int value(int) const { return first_value + column; }
};

/// Rows of values of the block, of tokens in [0, count): the constructor issues the loads.
class HeldValues {
 public:
  __device__ HeldValues(const RecurrenceCall& call, const Rows& rows, const StepPlace& place,
                        const TokenRange& range) {
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const int i = r * kThreads + threadIdx.x, value = place.first_value + i % kStepValues;
      const bool there = i / kStepValues < range.count && value < call.V;
      const std::int64_t at = range.batch * rows.batch + (range.first + i / kStepValues) * rows.token +
                              place.head * rows.head + value * rows.channel;
      bits_[r] = there ? load_bits(rows.data, is_16_bit(rows.dtype), at) : 0;
    }
  }
  __device__ void put(DType dtype, float (&v)[kStepTokens][kStepValues]) const {
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const int i = r * kThreads + threadIdx.x;
      v[i / kStepValues][i % kStepValues] = to_float(bits_[r], dtype);
    }
  }

 private:
  static constexpr int kEach = kStepTokens * kStepValues / kThreads;
  std::uint32_t bits_[kEach];
};

/// What outputs are divided by with `normalize`: q^T z + 1e-10, z the sum of the keys so far. A warp takes a
/// token at a time. `z` is that of the tokens before these.
template <int KP>
__device__ void make_divisors(const KeyTile<KP>& q, const KeyTile<KP>& k, const float* z, float* divisors) {
  for (int t = static_cast<int>(threadIdx.x) / 32; t < kStepTokens; t += kWarps) {
    float sum = 0;
    for (int i = threadIdx.x % 32; i < KP; i += 32) {
      float keys = z[i];
      for (int s = 0; s <= t; ++s) keys += k[s * kRow<KP> + i];
      sum += q[t * kRow<KP> + i] * keys;
    }
    sum = reduce(sum);
    if (threadIdx.x % 32 == 0) divisors[t] = sum + 1e-10f;
  }
}

/// Makes the tiles of some tokens; they are there when it returns.
template <int KP, Rule rule>
__device__ void load_tokens(const RecurrenceCall& call, const LowRankPair& pair, const StepPlace& place,
                            TokenLoader<kStepTokens, KP, Decays::plain>& tokens, const TokenRange& range,
                            StepTiles<KP, rule>& tiles) {
  const HeldValues values(call, call.v, place, range);
  tokens.load(range, tiles.q, tiles.k, tiles.d, tiles.beta);
  if constexpr (rule == Rule::low_rank) {
    load_rows<kStepTokens, KP>(pair.a, place.head / call.group, call.K, range, tiles.pair.a);
    load_rows<kStepTokens, KP>(pair.b, place.head / call.group, call.K, range, tiles.pair.b);
  }
  values.put(call.v.dtype, tiles.v);
  __syncthreads();
  if (rule == Rule::additive && call.normalize) {
    make_divisors<KP>(tiles.q, tiles.k, tiles.z, tiles.divisors);
    __syncthreads();
    for (int i = threadIdx.x; i < KP; i += kThreads) {
      for (int t = 0; t < range.count; ++t) tiles.z[i] += tiles.k[t * kRow<KP> + i];
    }
  }
}

/// Four keys of a tile's token t, those of elements i to i + 3 of the thread's state.
template <int KP>
__device__ float4 four_keys(const KeyTile<KP>& tile, const StepPlace& place, int t, int i) {
  return *reinterpret_cast<const float4*>(tile + t * kRow<KP> + place.key(i));
}
template <int count>
__device__ float dot_four(float4 x, const float (&s)[count], int i) {
  return x.x * s[i] + x.y * s[i + 1] + x.z * s[i + 2] + x.w * s[i + 3];
}
template <int count>
__device__ void add_four(float4 x, float u, float (&s)[count], int i) {
  s[i] += x.x * u, s[i + 1] += x.y * u, s[i + 2] += x.z * u, s[i + 3] += x.w * u;
}
template <int count>
__device__ void decay_four(float4 d, float (&s)[count], int i) {
  s[i] *= d.x, s[i + 1] *= d.y, s[i + 2] *= d.z, s[i + 3] *= d.w;
}

/// What a token adds to a value's column of the state: k u^T + b w^T.
struct StepAdded {
  float u, w;
};

/// Advances the thread's part of the state by token t of the tiles and leaves its output there.
template <int KP, Rule rule>
__device__ StepAdded advance(StepTiles<KP, rule>& tiles, const StepPlace& place, int t, float (&s)[KP / 4]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < KP / 4; i += 4) {
    if constexpr (rule == Rule::low_rank) sum += dot_four(four_keys<KP>(tiles.pair.a, place, t, i), s, i);
    decay_four(four_keys<KP>(tiles.d, place, t, i), s, i);
    if constexpr (rule == Rule::delta) sum += dot_four(four_keys<KP>(tiles.k, place, t, i), s, i);
  }
  StepAdded added{tiles.v[t][place.column], 0};
  if constexpr (rule == Rule::delta) added.u = tiles.beta[t] * (added.u - reduce<4>(sum));
  if constexpr (rule == Rule::low_rank) added.w = reduce<4>(sum);
  float qs = 0;
#pragma unroll
  for (int i = 0; i < KP / 4; i += 4) {
    add_four(four_keys<KP>(tiles.k, place, t, i), added.u, s, i);
    if constexpr (rule == Rule::low_rank) add_four(four_keys<KP>(tiles.pair.b, place, t, i), added.w, s, i);
    qs += dot_four(four_keys<KP>(tiles.q, place, t, i), s, i);
  }
  qs = reduce<4>(qs);
  if (place.part == 0) tiles.o[t][place.column] = qs;
  return added;
}

/// Stores the outputs of the tiles' tokens where the call has outputs; zeros of a sequence that is skipped.
template <int KP, Rule rule>
__device__ void store_outputs(const RecurrenceCall& call, const StepPlace& place, const TokenRange& range,
                              bool skip, const StepTiles<KP, rule>& tiles) {
  const bool normalize = rule == Rule::additive && call.normalize;
  const Rows& o = call.o;
  for (int i = threadIdx.x; o.data && i < range.count * kStepValues; i += kThreads) {
    const int t = i / kStepValues, value = place.first_value + i % kStepValues;
    if (value >= call.V) continue;
    float x = skip ? 0 : tiles.o[t][i % kStepValues];
    if (normalize && !skip) x /= tiles.divisors[t];
    store(o.data, o.dtype,
          range.batch * o.batch + (range.first + t) * o.token + place.head * o.head + value * o.channel, x);
  }
}

}  // namespace fla::cuda
