#include <cuda_pipeline.h>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/several.cuh"
#include "fla/ops/recurrence/cuda/ring_indices.cuh"

/// A step over rings: the state is read once and, where no ring is folded, not written. The ring's tokens are
/// some of those that several.cuh has between the state and a token; with G their decays and l the last one,
///
///     S <- diag(G) S + sum (D_sl k_s) u_s^T     where the ring is folded
///
/// A thread also has a channel of the ring's keys, which it brings to the frame of the ring's last token,
/// from there backwards. Norms are in k_t and q_t, and in the ring in u.
namespace fla::cuda {
namespace {

/// The keys of the ring's last few tokens under way at once.
constexpr int kKeysAtOnce = 8;

template <int K, int values>
struct RingMemory {
  alignas(16) float keys[kMostPlaces][K];  ///< in the frame of the last token
  alignas(16) float decay[K];              ///< of all of them
  alignas(16) float u[kMostPlaces][values];
};

__device__ float log2_decay(const DecodeCall& call, int head, float rate, float bias, float g) {
  if (!call.has_g) return head_log2_decay(call, head);
  float x[1] = {g};
  const float biases[1] = {bias};
  log2_decays(call, rate, biases, x);
  return x[0];
}

/// A thread a channel: the ring's keys and decays, from the newest token on.
template <int threads, int K, int values>
__device__ void load_ring(const DecodeCall& call, const ReplayCall& replay, const Ring& ring, int head,
                          RingMemory<K, values>& memory) {
  const int c = static_cast<int>(threadIdx.x) - (threads - K);  // where others than these make tokens
  if (c < 0) return;
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
template <int threads, int K, int values>
__device__ void copy_u(const ReplayCall& replay, const Ring& ring, int head, int first_value,
                       RingMemory<K, values>& memory) {
  const Rows& u = replay.ring.v;
  const float* const from =
      static_cast<const float*>(u.data) + ring.slot * u.batch + head * u.head + first_value * u.channel;
  for (int i = threadIdx.x; i < ring.count * values; i += threads) {
    const int s = i / values, value = i % values;
    __pipeline_memcpy_async(&memory.u[s][value], from + ring.place(s) * u.token + value * u.channel, 4);
  }
  __pipeline_commit();
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

/// A step of several tokens has no shared memory for two tiles, and its sums come a few tokens at a time.
template <class Held, int K, bool several>
struct BlockOf {
  static constexpr int tile = kTile<Held, K>, parts = several ? 1 : kParts<tile>, values = parts * tile;
  static constexpr int threads = parts * kThreads, resident = parts == 2 ? 3 : 4;
  static constexpr int tokens = several ? kMostTokens : 1, at_once = several ? 4 : 1;
};

template <bool several, class State>
using HeldBy = std::conditional_t<several, float, State>;

template <Inputs inputs, class State, int K, bool v_first, Rule rule, bool several,
          class Block = BlockOf<HeldBy<several, State>, K, several>>
__global__ void __launch_bounds__(Block::threads, Block::resident)
    replay_step(const __grid_constant__ DecodeCall call, const __grid_constant__ ReplayCall replay,
                std::int64_t first_sequence) {
  using Part = decode_parts::Part<State, HeldBy<several, State>, K, v_first>;
  using Makers = decode_parts::Makers<Block::tokens, Block::threads / 32>;
  constexpr int tile = Part::tile, kMost = Block::tokens;
  __shared__ StepMemory<TokenMemory<K, Block::values>> tokens[kMost];
  __shared__ RingMemory<K, Block::values> old;
  __shared__ Pairs<rule, kMost, kMostPlaces> pairs;
  __shared__ Sums<Part, Block::at_once> sums[Block::parts];

  const Part part(threadIdx.x);
  const int part_index = threadIdx.x / kThreads, head = blockIdx.y, first_value = blockIdx.x * Block::values,
            part_value = first_value + part_index * tile;
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
      if (threadIdx.x < Block::values) put_o(t, threadIdx.x, 0);
    }
    return;
  }

  TokenVectors<inputs, rule, K, Block::values, Makers::each> vectors[Makers::rounds];
  const auto for_each_token = [&](auto&& body) { Makers::for_each(vectors, T, body); };
  for_each_token([&](auto& token, int t) { token.fetch(call, n, t, head); });
  State* const place = part.find(call.initial_state, ring.slot, head, part_value, call.V);
  uint4 bits[Part::loads];
  part.fetch(place, call.V, bits);
  copy_u<Block::threads>(replay, ring, head, first_value, old);
  for_each_token([&](auto& token, int t) { token.fetch_values(call, n, t, head, first_value); });
  load_ring<Block::threads>(call, replay, ring, head, old);
  for_each_token([&](auto& token, int t) {
    token.put(call, head, tokens[t]);
    if (blockIdx.x == 0) append(call, replay, ring, head, t, token);
  });
  __pipeline_wait_prior(0);
  __syncthreads();
  for_each_token([&](auto& token, int t) {
    const Factors factors = token.factors(call, tokens[t]);
    if (threadIdx.x % (32 * Makers::each) == 0) tokens[t].factors = factors;
  });
  make_pairs<rule, K>(old.keys, ring.count, tokens, T, Block::threads / 32, pairs);
  __syncthreads();
  if (const int c = threadIdx.x; c < K) make_frames<rule, kMost>(tokens, T, c, old.decay[c], false);
  __syncthreads();

  float u[kMost] = {}, w[1] = {};
  for (int first = 0; first < T; first += Block::at_once) {
    const int last = min(first + Block::at_once, T);
#pragma unroll 1
    for (int t = first; t < last; ++t)
      part.template sum<rule>(bits, tokens[t].x, tokens[t].qd, sums[part_index].x[t - first],
                              sums[part_index].qd[t - first]);
    __syncthreads();
    if (const int index = threadIdx.x; index < Block::values) {
      const int own = index / tile;
      find_outputs<rule, kMost>(
          call, tokens, first, last, index, index % tile, sums[own], pairs, &old.u[0][index], Block::values,
          ring.count, u, w, [&](int t, float o) {
            put_o(t, index, o);
            const Rows& rows = replay.ring.v;
            static_cast<float*>(rows.data)[ring.slot * rows.batch + ring.place(ring.count + t) * rows.token +
                                           head * rows.head + (first_value + index) * rows.channel] = u[t];
          });
    }
    if (last < T) __syncthreads();
  }
  if (!ring.fold) return;

  typename Part::Floats s;
  part.decayed(bits, old.decay, s);
#pragma unroll 1
  for (int m = 0; m < ring.count; ++m) part.add(old.keys[m], old.u[m] + part_index * tile, s);
  part.put(s, call.V, place);
}

}  // namespace

cudaError_t launch_replay_step(const ReplayCall& given, void* workspace, bool early, cudaStream_t stream) {
  ReplayCall replay = given;
  if (const cudaError_t error = place_host_indices(replay, workspace, stream); error != cudaSuccess)
    return error;
  const RecurrenceCall& tokens = replay.call;
  const DecodeCall call = decode_call(tokens, {}, tokens.read_slots, {});
  return with_sizes(tokens, {}, tokens.initial_state, [&]<Inputs inputs, class State, int K, bool v_first>() {
    return with_flag(tokens.rule == Rule::delta, [&]<bool delta>(std::bool_constant<delta>) {
      return with_flag(tokens.T > 1, [&]<bool several>(std::bool_constant<several>) {
        using Block = BlockOf<HeldBy<several, State>, K, several>;
        // Of steps of drafts there are fewer: they do without kernels of their own.
        constexpr Inputs used = several ? Inputs::any : inputs;
        constexpr Rule rule = delta ? Rule::delta : Rule::additive;
        return launch_blocks(replay_step<used, State, K, v_first, rule, several>, tokens, Block::values,
                             Block::threads, early, stream, call, replay);
      });
    });
  });
}

}  // namespace fla::cuda
