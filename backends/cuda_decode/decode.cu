#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/part.cuh"
#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/with_rule.h"

/// One token for every sequence: the state is read once and written once, and everything else is hidden under
/// that. Several tokens: steps.cu.
///
///     S <- diag(d) S      u = beta (v - k^T S)      S <- S + k u^T      o = q^T S = q^T (d S) + (q^T k) u
///
/// The last form needs no sum over the new state, so both sums are taken in one pass over the old one. With
/// Rule::additive u is v. With Rule::low_rank the second sum is w = a^T S over the old state, and
/// S <- diag(d) S + k v^T + b w^T.
///
///     block    16 KiB of one head's state: all keys of some values; 128 threads, all loads under way at once
///     thread   8 loads of 16 bytes, kept in registers until they are stored again (part.cuh)
///
/// Shared memory has the token's vectors, made by the block while the state is on its way, a thread a
/// channel. They are left without their norms, which saves a barrier; whoever reads them multiplies them by
/// those, before they meet the state: a sum of f32 states with vectors of any norm could overflow.
namespace fla::cuda {
namespace {

/// Blocks that a multiprocessor holds at once: as many as the registers that wait for loads allow.
template <class State, bool v_first>
inline constexpr int kResident = sizeof(State) == 4 || !v_first ? 7 : 6;

/// The token's vectors are needed first and asked for first, except with bf16 states in [K, V]: there the
/// instructions that this takes would keep the state's loads waiting, at N = 32 and H = 32 for 5 % of the
/// time.
template <class State, bool v_first>
inline constexpr bool kStateFirst = sizeof(State) == 2 && !v_first;

template <Inputs inputs, class State, int K, bool v_first, Rule rule>
__global__ void __launch_bounds__(kThreads, kResident<State, v_first>)
    decode(const __grid_constant__ DecodeCall call, std::int64_t first_sequence) {
  using Part = decode_parts::Part<State, State, K, v_first>;
  constexpr int kVec = Part::kVec, loads = Part::loads, tile = Part::tile, kLanes = Part::kLanes;
  using Memory = std::conditional_t<rule == Rule::low_rank, PairMemory<K, tile>, TokenMemory<K, tile>>;
  __shared__ Memory memory;

  const Part part(threadIdx.x);
  const int first_value = blockIdx.x * tile, head = blockIdx.y;
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  wait_for_kernel_before();
  const Slots slots = slots_of(call, n);
  const auto put_o = [&](int value, float x) {
    const std::int64_t at = call.o.at(n, 0, head, first_value + value);
    void* const o = const_cast<void*>(call.o.data);
    store(o, inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype, at, x);
  };
  if (slots.read < 0) {
    if (threadIdx.x < tile) put_o(threadIdx.x, 0);
    return;
  }

  const int row_step = Part::row_step(call.V);
  uint4 bits[loads] = {};
  const auto fetch_state = [&] {
    if (!call.initial_state.data) return;
    const State* const from = part.find(call.initial_state, slots.read, head, first_value, call.V);
#pragma unroll
    for (int i = 0; i < loads; ++i) bits[i] = load_held<State, State>(from + i * row_step);
  };
  TokenVectors<inputs, rule, K, tile> vectors;
  if constexpr (kStateFirst<State, v_first>) fetch_state();
  vectors.fetch(call, n, 0, head);
  if constexpr (!kStateFirst<State, v_first>) fetch_state();
  vectors.fetch_values(call, n, 0, head, first_value);
  vectors.put(call, head, memory);
  __syncthreads();
  const Factors factors = vectors.factors(call, memory);
  const bool writes = call.final_state.data && slots.write >= 0;
  const float x_factor = rule == Rule::low_rank ? 1 : factors.k;
  // What the token adds to the state: k u^T + b w^T.
  struct Added {
    float u, w;  ///< times k, times b
  };
  const auto added = [&](float x_sum, float v) -> Added {
    if constexpr (rule == Rule::low_rank) return {v, x_sum};
    return {rule == Rule::delta ? factors.beta * (v - x_sum) : v, 0};
  };
  const auto output = [&](float q_sum, const Added& add) {
    float o = q_sum + factors.qk * add.u;
    if constexpr (rule == Rule::low_rank) o += factors.qb * add.w;
    return rule == Rule::additive && call.normalize ? o / factors.divisor : o;
  };

  constexpr int kKeys = Part::kKeys;
  float x[kKeys], qd[kKeys];
  const int first_key = part.first_key(), column = part.column();
  read(memory.x + first_key, x_factor, x);
  read(memory.qd + first_key, factors.q, qd);
  if constexpr (v_first) {
    float x_sum[loads] = {}, q_sum[loads] = {};
#pragma unroll
    for (int i = 0; i < loads; ++i) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        const float s = element<State>(bits[i], e);
        x_sum[i] += x[e] * s;
        q_sum[i] += qd[e] * s;
      }
    }
    reduce_scatter<kLanes, 1>(x_sum);
    reduce_scatter<kLanes, 1>(q_sum);
    static_assert(kLanes >= loads);  // so that a lane is left with one sum
    constexpr int kCopies = kLanes / loads;
    const int mine = part.row(part.lane % kLanes / kCopies);
    const Added add = added(x_sum[0], memory.v[mine]);
    if (part.lane % kCopies == 0) put_o(mine, output(q_sum[0], add));
    if (!writes) return;
    State* const to = part.find(call.final_state, slots.write, head, first_value, call.V);
    const float held_u[1] = {add.u}, held_w[1] = {add.w};
    float k[kVec], d[kVec], b[kVec];
    read(memory.k + column, factors.k, k);
    read(memory.d + column, 1, d);
    if constexpr (rule == Rule::low_rank) read(memory.b + column, 1, b);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      const float u = from_owner<kLanes, 1, loads>(held_u, i);
      float w = 0;
      if constexpr (rule == Rule::low_rank) w = from_owner<kLanes, 1, loads>(held_w, i);
      forget<State>(bits[i]);
      float s[kVec];
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        s[e] = d[e] * element<State>(bits[i], e) + k[e] * u;
        if constexpr (rule == Rule::low_rank) s[e] += b[e] * w;
      }
      store_held(to + i * row_step, s);
    }
  } else {
    __shared__ float x_sums[kWarps][tile], q_sums[kWarps][tile];  // over the keys of each warp
    part.template sum<rule>(bits, x, qd, x_sums, q_sums);
    __syncthreads();
    const auto added_to = [&](int value) {
      float sum = 0;
      if constexpr (rule != Rule::additive) {
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += x_sums[w][value];
      }
      return added(sum, memory.v[value]);
    };
    if (const int value = threadIdx.x; value < tile) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += q_sums[w][value];
      put_o(value, output(sum, added_to(value)));
    }
    if (!writes) return;
    State* const to = part.find(call.final_state, slots.write, head, first_value, call.V);
    Added add[kVec];
    float k[loads], d[loads], b[loads];
#pragma unroll
    for (int e = 0; e < kVec; ++e) add[e] = added_to(column + e);
    read(memory.k + first_key, factors.k, k);
    read(memory.d + first_key, 1, d);
    if constexpr (rule == Rule::low_rank) read(memory.b + first_key, 1, b);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      forget<State>(bits[i]);
      float s[kVec];
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        s[e] = d[i] * element<State>(bits[i], e) + k[i] * add[e].u;
        if constexpr (rule == Rule::low_rank) s[e] += b[i] * add[e].w;
      }
      store_held(to + i * row_step, s);
    }
  }
}

}  // namespace

cudaError_t launch_decode(const RecurrenceCall& given, const CallExtras& given_extras, void* workspace,
                          bool early, cudaStream_t stream) {
  RecurrenceCall placed = given;
  CallExtras extras = given_extras;
  if (const cudaError_t error = place_host_indices(placed, extras, workspace, stream); error != cudaSuccess)
    return error;
  const LowRankPair& pair = extras.pair;
  const DecodeCall call = decode_call(given, pair, placed.read_slots, placed.write_slots);
  if (given.T > 1 || extras.checkpoints.every != 0) return launch_steps(call, given, extras, early, stream);
  const States& states = given.initial_state.data ? given.initial_state : given.final_state;
  const bool all_bf16 = all_are_bf16(given, pair);
  return with_sizes(all_bf16, given, states, [&]<Inputs inputs, class State, int K, bool v_first>() {
    return with_rule(given.rule, [&]<Rule rule>(std::integral_constant<Rule, rule>) {
      return launch_blocks(decode<inputs, State, K, v_first, rule>, given, kTile<State, K>, kThreads, 0,
                           early, stream, call);
    });
  });
}

}  // namespace fla::cuda
