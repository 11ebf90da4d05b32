#include <algorithm>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/early_launch.cuh"
#include "backends/cuda_decode/token.cuh"
#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/with_rule.h"

/// One token for every sequence, or up to kMostTokens: the state is read once and written once, and
/// everything else is hidden under that.
///
///     S <- diag(d) S      u = beta (v - k^T S)      S <- S + k u^T      o = q^T S = q^T (d S) + (q^T k) u
///
/// The last form needs no sum over the new state, so both sums are taken in one pass over the old one. With
/// Rule::additive u is v. With Rule::low_rank the second sum is w = a^T S over the old state, and
/// S <- diag(d) S + k v^T + b w^T.
///
///     block    16 KiB of one head's state: all keys of some values; 128 threads, all loads under way at once
///     thread   8 loads of 16 bytes, kept in registers until they are stored again
///
///     [V, K]  a row of keys over neighbouring lanes       [K, V]  a row of values over neighbouring lanes
///             (f32, K = 128: 32 lanes x 4 keys)                   (f32, K = 128: 8 lanes x 4 values)
///
///     warp 0   v0    | l0 k0..3 | l1 k4..7 | .. | l31 |   warp 0   k0   | l0 | l1 | .. | l7  |
///              ..      load i is row i of the warp        ..       k8   | l8 | l9 | .. | l15 |   load 0
///     warp 1   v8    |                                    warp 1   k32  |
///
///     sums over keys: across the lanes of a row           across rows of lanes, then across warps
///
/// Shared memory has the token's vectors, made by the block while the state is on its way, a thread a
/// channel. They are left without their norms, which saves a barrier; whoever reads them multiplies them by
/// those, before they meet the state: a sum of f32 states with vectors of any norm could overflow.
///
/// Several tokens are the same step after step, on a state that stays in registers, as floats whatever its
/// type: their outputs have the bits that calls with a token each give, but for 16-bit states, which are
/// rounded only where they are stored. All vectors are made before the first step, those of a token by one
/// warp and with norms and scale in them. The state after a token goes to its checkpoint where the call has
/// one.
namespace fla::cuda {
namespace {

/// And for several.
struct StepsCall : DecodeCall {
  int tokens;
  Checkpoints checkpoints;
  AcceptedTokens accepted;
};

/// Blocks that a multiprocessor holds at once: as many as the registers that wait for loads allow.
template <class State, bool v_first, bool several>
inline constexpr int kResident = several                          ? 6
                                 : sizeof(State) == 4 || !v_first ? 7
                                                                  : 6;

/// The token's vectors are needed first and asked for first, except with bf16 states in [K, V]: there the
/// instructions that this takes would keep the state's loads waiting, at N = 32 and H = 32 for 5 % of the
/// time.
template <class State, bool v_first>
inline constexpr bool kStateFirst = sizeof(State) == 2 && !v_first;

template <Inputs inputs, class State, int K, bool v_first, Rule rule, bool several>
__global__ void __launch_bounds__(kThreads, kResident<State, v_first, several>)
    decode(const __grid_constant__ std::conditional_t<several, StepsCall, DecodeCall> call,
           std::int64_t first_sequence) {
  using Held = std::conditional_t<several, float, State>;
  constexpr int kVec = kVector<Held>, loads = kLoads<Held, K>, tile = kTile<Held, K>;
  constexpr int kLanes = (v_first ? K : tile) / kVec, kRows = 32 / kLanes;  // of a warp's load
  using Memory = std::conditional_t<rule == Rule::low_rank, PairMemory<K, tile>, TokenMemory<K, tile>>;
  __shared__ std::conditional_t<several, StepMemory<Memory>, Memory> memory[several ? kMostTokens : 1];

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_value = blockIdx.x * tile, head = blockIdx.y;
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  int tokens = 1;
  if constexpr (several) tokens = call.tokens;
  wait_for_kernel_before();
  Slots slots;
  if constexpr (several)
    slots = slots_of(call, call.accepted, n);
  else
    slots = slots_of(call, n);
  const auto put_o = [&](int t, int value, float x) {
    const std::int64_t at = call.o.at(n, t, head, first_value + value);
    void* const o = const_cast<void*>(call.o.data);
    store(o, inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype, at, x);
  };
  if (slots.read < 0) {
    for (int t = 0; t < tokens; ++t) {
      if (threadIdx.x < tile) put_o(t, threadIdx.x, 0);
    }
    return;
  }

  // Row i of this lane: a value of the tile, or a key. Its elements begin at `column`.
  const int column = lane % kLanes * kVec;
  const auto row = [&](int i) {
    return v_first ? (warp * loads + i) * kRows + lane / kLanes : (warp * kRows + lane / kLanes) * loads + i;
  };
  const auto first_row = [&](const States& states, std::int64_t slot) {
    const int at = v_first ? (first_value + row(0)) * K + column : row(0) * call.V + first_value + column;
    return static_cast<State*>(states.data) + states.offset(slot, head) + at;
  };
  const int row_step = v_first ? kRows * K : call.V;  // from load i to i + 1
  uint4 bits[loads] = {};
  const auto fetch_state = [&] {
    if (!call.initial_state.data) return;
    const State* const from = first_row(call.initial_state, slots.read);
#pragma unroll
    for (int i = 0; i < loads; ++i) bits[i] = load_held<State, Held>(from + i * row_step);
  };
  constexpr int kEach = several ? kMostTokens / kWarps : 1;  // tokens that a thread has a part in
  TokenVectors<inputs, rule, K, tile, several> vectors[kEach];
  const auto for_each_token = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int t = several ? j * kWarps + warp : 0;
      if (t < tokens) body(vectors[j], t);
    }
  };
  if constexpr (kStateFirst<State, v_first>) fetch_state();
  for_each_token([&](auto& token, int t) { token.fetch(call, n, t, head); });
  if constexpr (!kStateFirst<State, v_first>) fetch_state();
  for_each_token([&](auto& token, int t) { token.fetch_values(call, n, t, head, first_value); });
  for_each_token([&](auto& token, int t) { token.put(call, head, memory[t]); });
  if constexpr (several) {
    if (const int t = threadIdx.x; t < tokens) memory[t].kept = call.checkpoints.slot_after(n, t + 1);
    if (rule == Rule::additive && call.normalize) {
      __syncthreads();
      for_each_token([&](auto& token, int t) { token.add_keys_before(call, memory, t); });
    }
  }
  __syncthreads();
  Factors factors;
  if constexpr (!several) factors = vectors[0].factors(call, memory[0]);
  const bool writes = call.final_state.data && slots.write >= 0;
  // What a token adds to the state: k u^T + b w^T.
  struct Added {
    float u, w;  ///< times k, times b
  };
  [[maybe_unused]] alignas(16) __shared__ float x_part[several ? 2 : 1][kWarps][tile],
      q_part[several ? 2 : 1][kWarps][tile];  // sums over the keys of each warp

  for (int t = 0; t < tokens; ++t) {
    const Memory& token = memory[several ? t : 0];
    if constexpr (several) factors = memory[t].factors;
    const float q_factor = several ? 1 : factors.q, k_factor = several ? 1 : factors.k;
    const float x_factor = rule == Rule::low_rank ? 1 : k_factor;
    const auto added = [&](float x_sum, float v) -> Added {
      if constexpr (rule == Rule::low_rank) return {v, x_sum};
      return {rule == Rule::delta ? factors.beta * (v - x_sum) : v, 0};
    };
    const auto output = [&](float q_sum, const Added& add) {
      float o = q_sum + factors.qk * add.u;
      if constexpr (rule == Rule::low_rank) o += factors.qb * add.w;
      return rule == Rule::additive && call.normalize ? o / factors.divisor : o;
    };
    // Where the state goes after this token.
    State *to = nullptr, *kept = nullptr;
    const auto is_used = [&] {
      if (t + 1 < tokens) return true;
      if constexpr (several) return writes || memory[t].kept >= 0;
      return writes;
    };
    const auto find_places = [&] {
      if (t + 1 == tokens && writes) to = first_row(call.final_state, slots.write);
      if constexpr (several) {
        if (memory[t].kept >= 0) kept = first_row(call.checkpoints.of(n), memory[t].kept);
      }
    };
    const auto put_state = [&](int i, const float(&s)[kVec]) {
      if (!several || to != nullptr) store_held(to + i * row_step, s);
      if constexpr (several) {
        if (kept != nullptr) store_held(kept + i * row_step, s);
        bits[i] = pack<Held>(s);
      }
    };

    if constexpr (v_first) {
      float x[kVec], qd[kVec], x_sum[loads] = {}, q_sum[loads] = {};
      read(token.x + column, x_factor, x);
      read(token.qd + column, q_factor, qd);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const float s = element<Held>(bits[i], e);
          x_sum[i] += x[e] * s;
          q_sum[i] += qd[e] * s;
        }
      }
      reduce_scatter<kLanes, 1>(x_sum);
      reduce_scatter<kLanes, 1>(q_sum);
      static_assert(kLanes >= loads);  // so that a lane is left with one sum
      constexpr int kCopies = kLanes / loads;
      const int mine = row(lane % kLanes / kCopies);
      const Added add = added(x_sum[0], token.v[mine]);
      if (lane % kCopies == 0) put_o(t, mine, output(q_sum[0], add));
      if (!is_used()) return;
      find_places();
      const float held_u[1] = {add.u}, held_w[1] = {add.w};
      float k[kVec], d[kVec], b[kVec];
      read(token.k + column, k_factor, k);
      read(token.d + column, 1, d);
      if constexpr (rule == Rule::low_rank) read(token.b + column, 1, b);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        const float u = from_owner<kLanes, 1, loads>(held_u, i);
        float w = 0;
        if constexpr (rule == Rule::low_rank) w = from_owner<kLanes, 1, loads>(held_w, i);
        forget<Held>(bits[i]);
        float s[kVec];
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          s[e] = d[e] * element<Held>(bits[i], e) + k[e] * u;
          if constexpr (rule == Rule::low_rank) s[e] += b[e] * w;
        }
        put_state(i, s);
      }
    } else {
      float x_sum[kVec] = {}, q_sum[kVec] = {};
      {
        float x[loads], qd[loads];
        read(token.x + row(0), x_factor, x);
        read(token.qd + row(0), q_factor, qd);
#pragma unroll
        for (int i = 0; i < loads; ++i) {
#pragma unroll
          for (int e = 0; e < kVec; ++e) {
            const float s = element<Held>(bits[i], e);
            x_sum[e] += x[i] * s;
            q_sum[e] += qd[i] * s;
          }
        }
      }
      reduce_scatter<kRows, kLanes>(x_sum);
      reduce_scatter<kRows, kLanes>(q_sum);
      static_assert(kVec >= kRows);
      constexpr int kHeld = kVec / kRows;
      auto& x_parts = x_part[several ? t % 2 : 0];  // in turn, so that one barrier a token does
      auto& q_parts = q_part[several ? t % 2 : 0];
#pragma unroll
      for (int j = 0; j < kHeld; ++j) {
        const int value = column + lane / kLanes * kHeld + j;
        x_parts[warp][value] = x_sum[j], q_parts[warp][value] = q_sum[j];
      }
      __syncthreads();
      const auto added_to = [&](int value) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += x_parts[w][value];
        return added(sum, token.v[value]);
      };
      if (const int value = threadIdx.x; value < tile) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += q_parts[w][value];
        put_o(t, value, output(sum, added_to(value)));
      }
      if (!is_used()) return;
      find_places();
      Added add[kVec];
      float k[loads], d[loads], b[loads];
#pragma unroll
      for (int e = 0; e < kVec; ++e) add[e] = added_to(column + e);
      read(token.k + row(0), k_factor, k);
      read(token.d + row(0), 1, d);
      if constexpr (rule == Rule::low_rank) read(token.b + row(0), 1, b);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        forget<Held>(bits[i]);
        float s[kVec];
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          s[e] = d[i] * element<Held>(bits[i], e) + k[i] * add[e].u;
          if constexpr (rule == Rule::low_rank) s[e] += b[i] * add[e].w;
        }
        put_state(i, s);
      }
    }
  }
}

/// Launches on some of the sequences at a time, as many as a grid holds.
template <Inputs inputs, class State, int K, bool v_first, Rule rule, class Call>
cudaError_t launch_all(const Call& call, std::int64_t N, int HV, bool early, cudaStream_t stream) {
  constexpr bool several = std::is_same_v<Call, StepsCall>;
  constexpr int kValues = kTile<std::conditional_t<several, float, State>, K>;
  for (std::int64_t first = 0; first < N; first += kMostBlocks) {
    const dim3 grid{static_cast<unsigned>(call.V / kValues), static_cast<unsigned>(HV),
                    static_cast<unsigned>(std::min(kMostBlocks, N - first))};
    const cudaError_t error = launch_early(decode<inputs, State, K, v_first, rule, several>, grid, kThreads,
                                           early, stream, call, first);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t launch_decode(const RecurrenceCall& given, const CallExtras& given_extras, void* workspace,
                          bool early, cudaStream_t stream) {
  RecurrenceCall placed = given;
  CallExtras extras = given_extras;
  if (const cudaError_t error = place_host_indices(placed, extras, workspace, stream); error != cudaSuccess)
    return error;
  const LowRankPair& pair = extras.pair;
  const DecodeCall one = decode_call(given, pair, placed.read_slots, placed.write_slots);
  const bool all_bf16 = all_are_bf16(given, pair);
  const States& states = given.initial_state.data ? given.initial_state
                         : given.final_state.data ? given.final_state
                                                  : extras.checkpoints.states;
  return with_flag(all_bf16, [&]<bool bf16_inputs>(std::bool_constant<bf16_inputs>) {
    return with_flag(states.dtype == DType::bf16, [&]<bool bf16_state>(std::bool_constant<bf16_state>) {
      return with_flag(given.K == 128, [&]<bool wide>(std::bool_constant<wide>) {
        return with_flag(states.key == 1, [&]<bool v_first>(std::bool_constant<v_first>) {
          return with_rule(given.rule, [&]<Rule rule>(std::integral_constant<Rule, rule>) {
            using State = std::conditional_t<bf16_state, __nv_bfloat16, float>;
            constexpr Inputs inputs = bf16_inputs ? Inputs::bf16 : Inputs::any;
            constexpr int K = wide ? 128 : 64;
            const auto launch = [&](const auto& call) {
              return launch_all<inputs, State, K, v_first, rule>(call, given.N, given.HV, early, stream);
            };
            if (given.T == 1 && extras.checkpoints.every == 0) return launch(one);
            return launch(StepsCall{one, static_cast<int>(given.T), extras.checkpoints, extras.accepted});
          });
        });
      });
    });
  });
}

}  // namespace fla::cuda
