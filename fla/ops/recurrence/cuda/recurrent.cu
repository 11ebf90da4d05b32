#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/padded_keys.h"
#include "fla/ops/recurrence/cuda/states.cuh"
#include "fla/ops/recurrence/cuda/tokens.cuh"
#include "fla/ops/recurrence/cuda/with_rule.h"

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
namespace {

constexpr int kTokens = 8, kValues = 32;

template <int KP>
using KeyTile = float[kTokens * kRow<KP>];

/// The pair's tiles, where the rule has one.
template <int KP, Rule rule>
struct PairTiles {};
template <int KP>
struct PairTiles<KP, Rule::low_rank> {
  alignas(16) KeyTile<KP> a, b;
};

/// What outputs are divided by with `normalize`: q^T z + 1e-10, z the sum of the keys so far. A warp takes a
/// token at a time. `z` is that of the tokens before these.
template <int KP>
__device__ void make_divisors(const KeyTile<KP>& q, const KeyTile<KP>& k, const float* z, float* divisors) {
  for (int t = static_cast<int>(threadIdx.x) / 32; t < kTokens; t += kWarps) {
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

/// `checkpointed` is apart, since what it costs in registers shows in decoding.
template <int KP, Rule rule, bool checkpointed>
__global__ void __launch_bounds__(kThreads, KP > 128 ? 2 : 4)
    recurrent(const __grid_constant__ RecurrenceCall call, const __grid_constant__ CallExtras extras) {
  alignas(16) __shared__ KeyTile<KP> q, k, d;
  __shared__ PairTiles<KP, rule> tiles;
  __shared__ float v[kTokens][kValues], o[kTokens][kValues], beta[kTokens];
  __shared__ float z[KP], divisors[kTokens];  // with normalize

  const int blocks = (call.V + kValues - 1) / kValues;
  const int first_value = static_cast<int>(blockIdx.x % blocks) * kValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const int column = threadIdx.x / 4, part = threadIdx.x % 4;
  const Sequence sequence = sequence_of(call, n);
  const Slots slots = checkpointed ? slots_of(call, extras.accepted, n) : slots_of(call, n);
  const bool skip = slots.read < 0, normalize = rule == Rule::additive && call.normalize;

  // Of element i of the thread's state.
  const auto key = [&](int i) { return i / 4 * 16 + part * 4 + i % 4; };
  const auto value = [&](int) { return first_value + column; };
  const auto in_state = [&](int i) { return value(i) < call.V && key(i) < call.K; };
  float s[KP / 4];
  if (!skip) load_state(call.initial_state, slots.read, head, key, value, in_state, s);
  if (normalize) {
    for (int i = threadIdx.x; i < KP; i += kThreads) z[i] = 0;
  }

  TokenLoader<kTokens, KP, Decays::plain> tokens(call, head);
  [[maybe_unused]] const Checkpoints& checkpoints = extras.checkpoints;
  for (std::int64_t t0 = sequence.begin; t0 < sequence.end;) {
    int count = static_cast<int>(min(sequence.end - t0, std::int64_t{kTokens}));
    if constexpr (checkpointed) {  // a checkpoint ends the tile
      const std::int64_t left = checkpoints.every - (t0 - sequence.begin) % checkpoints.every;
      count = static_cast<int>(min(left, std::int64_t{count}));
    }
    const auto at = [&](const Rows& rows, int i) {
      return sequence.batch * rows.batch + (t0 + i / kValues) * rows.token + head * rows.head +
             (first_value + i % kValues) * rows.channel;
    };
    if (!skip) {
      constexpr int kEach = kTokens * kValues / kThreads;  // values that a thread brings
      std::uint32_t v_bits[kEach];
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        const int i = r * kThreads + threadIdx.x;
        const bool there = i / kValues < count && first_value + i % kValues < call.V;
        v_bits[r] = there ? load_bits(call.v.data, is_16_bit(call.v.dtype), at(call.v, i)) : 0;
      }
      const TokenRange range{sequence.batch, t0, count};
      tokens.load(range, q, k, d, beta);
      if constexpr (rule == Rule::low_rank) {
        load_rows<kTokens, KP>(extras.pair.a, head / call.group, call.K, range, tiles.a);
        load_rows<kTokens, KP>(extras.pair.b, head / call.group, call.K, range, tiles.b);
      }
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        const int i = r * kThreads + threadIdx.x;
        v[i / kValues][i % kValues] = to_float(v_bits[r], call.v.dtype);
      }
      __syncthreads();
      if (normalize) {
        make_divisors<KP>(q, k, z, divisors);
        __syncthreads();
        for (int i = threadIdx.x; i < KP; i += kThreads) {
          for (int t = 0; t < count; ++t) z[i] += k[t * kRow<KP> + i];
        }
      }
      for (int t = 0; t < count; ++t) {
        const auto four = [&](const float* tile, int i) {
          return *reinterpret_cast<const float4*>(tile + t * kRow<KP> + key(i));
        };
        const auto dot = [&](float4 x, int i) {
          return x.x * s[i] + x.y * s[i + 1] + x.z * s[i + 2] + x.w * s[i + 3];
        };
        const auto add = [&](float4 x, float u, int i) {
          s[i] += x.x * u, s[i + 1] += x.y * u, s[i + 2] += x.z * u, s[i + 3] += x.w * u;
        };
        float sum = 0;
#pragma unroll
        for (int i = 0; i < KP / 4; i += 4) {
          if constexpr (rule == Rule::low_rank) sum += dot(four(tiles.a, i), i);
          const float4 di = four(d, i);
          s[i] *= di.x, s[i + 1] *= di.y, s[i + 2] *= di.z, s[i + 3] *= di.w;
          if constexpr (rule == Rule::delta) sum += dot(four(k, i), i);
        }
        float u = v[t][column], w = 0;  // what goes with k, and with b
        if constexpr (rule == Rule::delta) u = beta[t] * (u - reduce<4>(sum));
        if constexpr (rule == Rule::low_rank) w = reduce<4>(sum);
        float qs = 0;
#pragma unroll
        for (int i = 0; i < KP / 4; i += 4) {
          add(four(k, i), u, i);
          if constexpr (rule == Rule::low_rank) add(four(tiles.b, i), w, i);
          qs += dot(four(q, i), i);
        }
        qs = reduce<4>(qs);
        if (part == 0) o[t][column] = qs;
      }
      __syncthreads();
    }
    for (int i = threadIdx.x; call.o.data && i < count * kValues; i += kThreads) {
      if (first_value + i % kValues >= call.V) continue;
      float x = skip ? 0 : o[i / kValues][i % kValues];
      if (normalize && !skip) x /= divisors[i / kValues];
      store(call.o.data, call.o.dtype, at(call.o, i), x);
    }
    t0 += checkpointed ? count : kTokens;
    if constexpr (checkpointed) {
      if (!skip) store_checkpoint(call, checkpoints, n, t0, head, key, value, in_state, s);
    }
  }

  if (!skip) store_state(call.final_state, slots.write, head, key, value, in_state, s);
}

}  // namespace

std::size_t recurrent_workspace(const RecurrenceCall& call, const CallExtras& extras) {
  return index_workspace(call, extras);
}

cudaError_t launch_recurrent(const RecurrenceCall& given, const CallExtras& given_extras, void* workspace,
                             cudaStream_t stream) {
  RecurrenceCall call = given;
  CallExtras extras = given_extras;
  if (const cudaError_t error = place_host_indices(call, extras, workspace, stream); error != cudaSuccess)
    return error;
  const std::int64_t blocks = call.N * call.HV * ((call.V + kValues - 1) / kValues);
  return with_padded_keys(call.K, [&]<int KP>(Constant<KP>) {
    return with_rule(call.rule, [&]<Rule rule>(std::integral_constant<Rule, rule>) {
      const auto launch = [&]<bool checkpointed>(std::bool_constant<checkpointed>) {
        return launch_blocks<recurrent<KP, rule, checkpointed>, 0>(blocks, kThreads, stream, call, extras);
      };
      return extras.checkpoints.every > 0 ? launch(std::true_type{}) : launch(std::false_type{});
    });
  });
}

}  // namespace fla::cuda
