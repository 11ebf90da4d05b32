#include <cuda_pipeline.h>

#include <algorithm>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/early_launch.cuh"
#include "backends/cuda_decode/token.cuh"
#include "fla/ops/recurrence/cuda/ring_indices.cuh"

/// A step over rings: the state is read once and, where no ring is folded, not written. With S the state, s
/// the tokens of the ring and those of the step before t, and D_st = d_s+1 .. d_t
///
///     G  = the decays of the ring's tokens           N_ts = (k_t D_st)^T k_s         M_ts = (q_t D_st)^T k_s
///     p_t = (k_t d_1 .. d_t G)^T S + sum N_ts u_s    u_t = beta_t (v_t - p_t)
///     r_t = (q_t d_1 .. d_t G)^T S + sum M_ts u_s    o_t = r_t + (q_t^T k_t) u_t
///     S   = G S + sum (D_sl k_s) u_s^T               where the ring, up to its last token l, is folded
///
/// Decays are multiplied, never divided by: any gate will do. Blocks and threads have the state as in
/// decode.cu. A thread also has a channel of the ring's keys, which it brings to the frame of the ring's last
/// token, from there backwards; a warp takes a pair of tokens at a time for N and M; a thread takes a value
/// of the block for p, u and o. Norms are in k_t and q_t, and in the ring in u.
namespace fla::cuda {
namespace {

constexpr int kMostPlaces = 32;

/// The keys of the ring's last few tokens under way at once.
constexpr int kKeysAtOnce = 8;

template <int K, int tile>
struct RingMemory {
  alignas(16) float keys[kMostPlaces][K];  ///< in the frame of the last token
  alignas(16) float decay[K];              ///< of all of them
  float u[kMostPlaces][tile];
};

/// N and M of a step's tokens: with the ring's tokens, and behind those with the step's own.
template <int tokens>
struct Pairs {
  float N[tokens][kMostPlaces + tokens], M[tokens][kMostPlaces + tokens];
};

__device__ float log2_decay(const DecodeCall& call, int head, float rate, float bias, float g) {
  if (!call.has_g) return head_log2_decay(call, head);
  float x[1] = {g};
  const float biases[1] = {bias};
  log2_decays(call, rate, biases, x);
  return x[0];
}

/// A thread a channel: the ring's keys and decays, from the newest token on.
template <int K, int tile>
__device__ void load_ring(const DecodeCall& call, const ReplayCall& replay, const Ring& ring, int head,
                          RingMemory<K, tile>& memory) {
  const int c = threadIdx.x;
  if (c >= K) return;
  const Rows &k = replay.ring.k, &g = replay.ring.g;
  const std::int64_t k_at = ring.slot * k.batch + head / call.group * k.head + c * k.channel,
                     g_at = ring.slot * g.batch + head * g.head + c * g.channel;
  float rate = 1, bias = 0, suffix = 1;
  if (call.gate != Gate::given) {
    if (call.A_log.data) rate = __expf(load(call.A_log.data, call.A_log.dtype, call.A_log.at(0, 0, head, 0)));
    if (call.dt_bias.data) bias = load(call.dt_bias.data, call.dt_bias.dtype, call.dt_bias.at(0, 0, head, c));
  }
  for (int end = ring.count; end > 0; end -= kKeysAtOnce) {
    std::uint32_t k_bits[kKeysAtOnce], g_bits[kKeysAtOnce];
#pragma unroll
    for (int j = 0; j < kKeysAtOnce; ++j) {
      const int i = end - 1 - j;
      k_bits[j] = g_bits[j] = 0;
      if (i < 0) continue;
      const int place = ring.place(i);
      k_bits[j] = load_bits(k.data, is_16_bit(k.dtype), k_at + place * k.token);
      if (call.has_g) g_bits[j] = load_bits(g.data, is_16_bit(g.dtype), g_at + place * g.token);
    }
#pragma unroll
    for (int j = 0; j < kKeysAtOnce; ++j) {
      const int i = end - 1 - j;
      if (i < 0) continue;
      memory.keys[i][c] = suffix * to_float(k_bits[j], k.dtype);
      suffix *= exp2_decay(log2_decay(call, head, rate, bias, to_float(g_bits[j], g.dtype)));
    }
  }
  memory.decay[c] = suffix;
}

/// What the block's values have of the ring's u; to be waited for with the pipeline's functions.
template <int K, int tile>
__device__ void copy_u(const ReplayCall& replay, const Ring& ring, int head, int first_value,
                       RingMemory<K, tile>& memory) {
  const Rows& u = replay.ring.v;
  const float* const from =
      static_cast<const float*>(u.data) + ring.slot * u.batch + head * u.head + first_value * u.channel;
  for (int i = threadIdx.x; i < ring.count * tile; i += kThreads) {
    const int s = i / tile, value = i % tile;
    __pipeline_memcpy_async(&memory.u[s][value], from + ring.place(s) * u.token + value * u.channel, 4);
  }
  __pipeline_commit();
}

/// A warp a pair.
template <Rule rule, int K, int tile, int most, class Token>
__device__ void make_pairs(const RingMemory<K, tile>& ring, int count, const Token* tokens, int T,
                           Pairs<most>& pairs) {
  constexpr int kEach = K / 32;
  const int lane = threadIdx.x % 32;
  const int all = count * T + T * (T - 1) / 2;
  for (int pair = threadIdx.x / 32; pair < all; pair += kWarps) {
    int t = pair / max(count, 1), s = pair % max(count, 1);
    bool own = false;
    if (pair >= count * T) {  // of the step's tokens: (1, 0), (2, 0), (2, 1), ..
      own = true, t = 1, s = pair - count * T;
      while (s >= t) s -= t++;
    }
    float sums[2] = {};
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int c = e * 32 + lane;
      float key = own ? tokens[s].k[c] : ring.keys[s][c];
      for (int m = own ? s + 1 : 0; m < t; ++m) key *= tokens[m].d[c];
      if constexpr (rule == Rule::delta) sums[0] += tokens[t].x[c] * key;
      sums[1] += tokens[t].qd[c] * key;
    }
    reduce_scatter<32, 1>(sums);
    const int column = own ? kMostPlaces + s : s;
    if (lane == 0) pairs.N[t][column] = sums[0];
    if (lane == 16) pairs.M[t][column] = sums[0];
  }
}

/// Appends a token's key and gate; of a key, the first value head of its group.
template <class Vectors>
__device__ void append(const DecodeCall& call, const ReplayCall& replay, const Ring& ring, int head, int t,
                       const Vectors& token) {
  const int place = ring.place(ring.count + t);
  const auto put = [&](const Rows& rows, int row_head, unsigned channel, std::uint32_t bits) {
    const std::int64_t at =
        ring.slot * rows.batch + place * rows.token + row_head * rows.head + channel * rows.channel;
    if (is_16_bit(rows.dtype)) {
      static_cast<std::uint16_t*>(rows.data)[at] = static_cast<std::uint16_t>(bits);
    } else {
      static_cast<std::uint32_t*>(rows.data)[at] = bits;
    }
  };
  const bool has_key = head % call.group == 0, by_channel = call.gate_kind == GateKind::channel,
             has_gate = call.has_g && call.gate_kind != GateKind::head;
  token.for_each_raw([&](unsigned c, std::uint32_t k, std::uint32_t g) {
    if (has_key) put(replay.ring.k, head / call.group, c, k);
    if (has_gate && (by_channel || c == 0)) put(replay.ring.g, head, c, g);
  });
}

template <Inputs inputs, class State, int K, bool v_first, Rule rule, bool several>
__global__ void __launch_bounds__(kThreads, several ? 4 : 5)
    replay_step(const __grid_constant__ DecodeCall call, const __grid_constant__ ReplayCall replay,
                std::int64_t first_sequence) {
  using Held = std::conditional_t<several, float, State>;
  constexpr int kVec = kVector<Held>, loads = kLoads<Held, K>, tile = kTile<Held, K>;
  constexpr int kLanes = (v_first ? K : tile) / kVec, kRows = 32 / kLanes;  // of a warp's load
  constexpr int kMost = several ? kMostTokens : 1;
  __shared__ StepMemory<TokenMemory<K, tile>> memory[kMost];
  __shared__ RingMemory<K, tile> old;
  __shared__ Pairs<kMost> pairs;
  __shared__ float added[kMost][tile];  // u of the step's tokens, of which a thread has one value
  // Sums over the keys of each warp, or of all; in turn, so that one barrier a token does.
  constexpr int kParts = v_first ? 1 : kWarps;
  __shared__ float x_part[several ? 2 : 1][kParts][tile], q_part[several ? 2 : 1][kParts][tile];

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_value = blockIdx.x * tile, head = blockIdx.y;
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  const int T = several ? static_cast<int>(replay.call.T) : 1;
  wait_for_kernel_before();
  const Ring ring = ring_of(replay, n);
  const auto put_o = [&](int t, int value, float x) {
    const std::int64_t at = call.o.at(n, t, head, first_value + value);
    void* const o = const_cast<void*>(call.o.data);
    store(o, inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype, at, x);
  };
  if (ring.slot < 0) {
    for (int t = 0; t < T; ++t) {
      if (threadIdx.x < tile) put_o(t, threadIdx.x, 0);
    }
    return;
  }

  constexpr int kEach = several ? kMostTokens / kWarps : 1;  // tokens that a warp makes
  TokenVectors<inputs, rule, K, tile, true> vectors[kEach];
  const auto for_each_token = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (const int t = j * kWarps + warp; t < T) body(vectors[j], t);
    }
  };
  for_each_token([&](auto& token, int t) { token.fetch(call, n, t, head); });
  // Row i of this lane: a value of the tile, or a key. Its elements begin at `column`.
  const int column = lane % kLanes * kVec;
  const auto row = [&](int i) {
    return v_first ? (warp * loads + i) * kRows + lane / kLanes : (warp * kRows + lane / kLanes) * loads + i;
  };
  const int row_step = v_first ? kRows * K : call.V;  // from load i to i + 1
  State* const place = [&] {
    const States& states = call.initial_state;
    const int at = v_first ? (first_value + row(0)) * K + column : row(0) * call.V + first_value + column;
    return static_cast<State*>(states.data) + states.offset(ring.slot, head) + at;
  }();
  uint4 bits[loads];
#pragma unroll
  for (int i = 0; i < loads; ++i) bits[i] = load_held<State, Held>(place + i * row_step);
  copy_u(replay, ring, head, first_value, old);
  for_each_token([&](auto& token, int t) { token.fetch_values(call, n, t, head, first_value); });
  load_ring(call, replay, ring, head, old);
  for_each_token([&](auto& token, int t) {
    token.put(call, head, memory[t]);
    if (blockIdx.x == 0) append(call, replay, ring, head, t, token);
  });
  if (rule == Rule::additive && call.normalize) {
    __syncthreads();
    for_each_token([&](auto& token, int t) { token.add_keys_before(call, memory, t); });
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  make_pairs<rule>(old, ring.count, memory, T, pairs);

  constexpr int kKeys = v_first ? kVec : loads;  // that a thread has
  const int first_key = v_first ? column : row(0);
  float decays[kKeys];
  read(old.decay + first_key, 1, decays);
#pragma unroll 1
  for (int t = 0; t < T; ++t) {
    const auto& token = memory[t];
    auto& x_parts = x_part[several ? t % 2 : 0];
    auto& q_parts = q_part[several ? t % 2 : 0];
    float x[kKeys], qd[kKeys];
    read(token.x + first_key, 1, x);
    read(token.qd + first_key, 1, qd);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) x[i] *= decays[i], qd[i] *= decays[i];
    if constexpr (v_first) {
      float x_sum[loads] = {}, q_sum[loads] = {};
#pragma unroll
      for (int i = 0; i < loads; ++i) {
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const float s = element<Held>(bits[i], e);
          if constexpr (rule == Rule::delta) x_sum[i] += x[e] * s;
          q_sum[i] += qd[e] * s;
        }
      }
      reduce_scatter<kLanes, 1>(x_sum);
      reduce_scatter<kLanes, 1>(q_sum);
      constexpr int kCopies = kLanes / loads;
      if (lane % kCopies == 0) {
        const int mine = row(lane % kLanes / kCopies);
        x_parts[0][mine] = x_sum[0], q_parts[0][mine] = q_sum[0];
      }
    } else {
      float x_sum[kVec] = {}, q_sum[kVec] = {};
#pragma unroll
      for (int i = 0; i < loads; ++i) {
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const float s = element<Held>(bits[i], e);
          if constexpr (rule == Rule::delta) x_sum[e] += x[i] * s;
          q_sum[e] += qd[i] * s;
        }
      }
      reduce_scatter<kRows, kLanes>(x_sum);
      reduce_scatter<kRows, kLanes>(q_sum);
      constexpr int kHeld = kVec / kRows;
#pragma unroll
      for (int j = 0; j < kHeld; ++j) {
        const int value = column + lane / kLanes * kHeld + j;
        x_parts[warp][value] = x_sum[j], q_parts[warp][value] = q_sum[j];
      }
    }
    if constexpr (several) {
      float d[kKeys];
      read(token.d + first_key, 1, d);
#pragma unroll
      for (int i = 0; i < kKeys; ++i) decays[i] *= d[i];
    }
    __syncthreads();
    if (const int value = threadIdx.x; value < tile) {
      float p = 0, r = 0;
#pragma unroll
      for (int w = 0; w < kParts; ++w) p += x_parts[w][value], r += q_parts[w][value];
      for (int s = 0; s < ring.count; ++s) {
        const float u = old.u[s][value];
        if constexpr (rule == Rule::delta) p += pairs.N[t][s] * u;
        r += pairs.M[t][s] * u;
      }
      for (int s = 0; s < t; ++s) {
        if constexpr (rule == Rule::delta) p += pairs.N[t][kMostPlaces + s] * added[s][value];
        r += pairs.M[t][kMostPlaces + s] * added[s][value];
      }
      const Factors& factors = token.factors;
      const float v = token.v[value], u = rule == Rule::delta ? factors.beta * (v - p) : v;
      added[t][value] = u;
      const float o = r + factors.qk * u;
      put_o(t, value, rule == Rule::additive && call.normalize ? o / factors.divisor : o);
      const Rows& rows = replay.ring.v;
      static_cast<float*>(rows.data)[ring.slot * rows.batch + ring.place(ring.count + t) * rows.token +
                                     head * rows.head + (first_value + value) * rows.channel] = u * factors.k;
    }
  }
  if (!ring.fold) return;

  read(old.decay + first_key, 1, decays);
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    float s[kVec];
#pragma unroll
    for (int e = 0; e < kVec; ++e) s[e] = decays[v_first ? e : i] * element<Held>(bits[i], e);
    for (int m = 0; m < ring.count; ++m) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        s[e] +=
            v_first ? old.keys[m][column + e] * old.u[m][row(i)] : old.keys[m][row(i)] * old.u[m][column + e];
      }
    }
    store_held(place + i * row_step, s);
  }
}

/// Launches on some of the sequences at a time, as many as a grid holds.
template <Inputs inputs, class State, int K, bool v_first, Rule rule, bool several>
cudaError_t launch_all(const DecodeCall& call, const ReplayCall& replay, bool early, cudaStream_t stream) {
  constexpr int kValues = kTile<std::conditional_t<several, float, State>, K>;
  const std::int64_t N = replay.call.N;
  for (std::int64_t first = 0; first < N; first += kMostBlocks) {
    const dim3 grid{static_cast<unsigned>(call.V / kValues), static_cast<unsigned>(replay.call.HV),
                    static_cast<unsigned>(std::min(kMostBlocks, N - first))};
    const cudaError_t error = launch_early(replay_step<inputs, State, K, v_first, rule, several>, grid,
                                           kThreads, early, stream, call, replay, first);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t launch_replay_step(const ReplayCall& given, void* workspace, bool early, cudaStream_t stream) {
  ReplayCall replay = given;
  if (const cudaError_t error = place_host_indices(replay, workspace, stream); error != cudaSuccess)
    return error;
  const RecurrenceCall& tokens = replay.call;
  const DecodeCall call = decode_call(tokens, {}, tokens.read_slots, {});
  const States& states = tokens.initial_state;
  return with_flag(all_are_bf16(tokens, {}), [&]<bool bf16_inputs>(std::bool_constant<bf16_inputs>) {
    return with_flag(states.dtype == DType::bf16, [&]<bool bf16_state>(std::bool_constant<bf16_state>) {
      return with_flag(tokens.K == 128, [&]<bool wide>(std::bool_constant<wide>) {
        return with_flag(states.key == 1, [&]<bool v_first>(std::bool_constant<v_first>) {
          return with_flag(tokens.rule == Rule::delta, [&]<bool delta>(std::bool_constant<delta>) {
            return with_flag(tokens.T > 1, [&]<bool several>(std::bool_constant<several>) {
              using State = std::conditional_t<bf16_state, __nv_bfloat16, float>;
              // Of steps of drafts there are fewer: they do without kernels of their own.
              constexpr Inputs inputs = bf16_inputs && !several ? Inputs::bf16 : Inputs::any;
              constexpr Rule rule = delta ? Rule::delta : Rule::additive;
              return launch_all < inputs, State, wide ? 128 : 64, v_first, rule,
                     several > (call, replay, early, stream);
            });
          });
        });
      });
    });
  });
}

}  // namespace fla::cuda
