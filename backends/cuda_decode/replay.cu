#include <cuda_pipeline.h>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/replay_token.cuh"
#include "backends/cuda_decode/several.cuh"
#include "fla/ops/recurrence/cuda/ring_indices.cuh"

/// A step over rings: the state is read once and, where no ring is folded, not written. The ring's tokens are
/// some of those that several.cuh has between the state and a token; with G their decays and l the last one,
///
///     S <- diag(G) S + sum (D_sl k_s) u_s^T     where the ring is folded
///
/// A thread also has a channel of the ring's keys, which it brings to the frame of the ring's last token,
/// from there backwards. Norms are in k_t and q_t, and in the ring in u. One token is replay_token.cuh's.
namespace fla::cuda {
namespace {

template <int K, int values>
struct RingMemory {
  alignas(16) float keys[kMostPlaces][K];  ///< in the frame of the last token
  alignas(16) float decay[K];              ///< of all of them
  alignas(16) float u[kMostPlaces][values];
};

/// By a thread, for its channel, from the newest token on. Returned is the decay of all.
template <int K, int values>
__device__ float load_keys(const DecodeCall& call, const ReplayCall& replay, const Ring& ring, int head,
                           int c, RingMemory<K, values>& memory) {
  constexpr int kAtOnce = 8;
  const ChannelGate gate(call, head, c);
  const RingRow k(replay.ring.k, ring, head / call.group, c), g(replay.ring.g, ring, head, c);
  float suffix = 1;
#pragma unroll 1
  for (int last = ring.count - 1; last >= 0; last -= kAtOnce) {
    std::uint32_t k_bits[kAtOnce] = {}, g_bits[kAtOnce] = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (j > last) continue;
      const int place = ring.place(last - j);
      k_bits[j] = k.load(place);
      if (call.has_g) g_bits[j] = g.load(place);
    }
    float decays[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) decays[j] = to_float(g_bits[j], g.dtype);
    gate.make_decays(decays);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (j > last) continue;
      memory.keys[last - j][c] = suffix * to_float(k_bits[j], k.dtype);
      suffix *= decays[j];
    }
  }
  return suffix;
}

/// What the block's values have of the ring's u; to be waited for with the pipeline's functions.
template <int K, int values>
__device__ void copy_u(const ReplayCall& replay, const Ring& ring, int head, int first_value,
                       RingMemory<K, values>& memory) {
  const int value = threadIdx.x % values;
  const RingValue ring_value(replay, ring, head, first_value + value);
  for (int i = threadIdx.x / values; i < ring.count; i += kThreads / values)
    __pipeline_memcpy_async(&memory.u[i][value], ring_value.u(i), sizeof(float));
  __pipeline_commit();
}

/// Sums come a few tokens at a time: there is no shared memory for those of all.
constexpr int kTokensAtOnce = 4;

/// Of drafts there are fewer: they do without kernels for some dtype of inputs.
template <class State, int K, bool v_first, Rule rule>
__global__ void __launch_bounds__(kThreads, 4)
    replay_tokens(const __grid_constant__ DecodeCall call, const __grid_constant__ ReplayCall replay,
                  std::int64_t first_sequence) {
  using Part = decode_parts::Part<State, float, K, v_first>;
  using Makers = decode_parts::Makers<kMostTokens, kWarps>;
  constexpr int tile = Part::tile;
  __shared__ StepMemory<TokenMemory<K, tile>> tokens[kMostTokens];
  __shared__ RingMemory<K, tile> old;
  __shared__ Pairs<rule, kMostTokens, kMostPlaces> pairs;
  __shared__ Sums<Part, kTokensAtOnce> sums;

  const Part part(threadIdx.x);
  const int head = blockIdx.y, first_value = blockIdx.x * tile, T = static_cast<int>(replay.call.T);
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  wait_for_kernel_before();
  const Ring ring = ring_of(replay, n);
  const auto put_o = [&](int t, int value, float x) {
    const std::int64_t at = call.o.at(n, t, head, first_value + value);
    void* const o = const_cast<void*>(call.o.data);
    store(o, call.o.dtype, at, x);
  };
  if (ring.slot < 0) {
    for (int t = 0; t < T; ++t) {
      if (threadIdx.x < tile) put_o(t, threadIdx.x, 0);
    }
    return;
  }

  TokenVectors<Inputs::any, rule, K, tile, Makers::each> vectors[Makers::rounds];
  const auto for_each_token = [&](auto&& body) { Makers::for_each(vectors, T, body); };
  for_each_token([&](auto& token, int t) { token.fetch(call, n, t, head); });
  State* const place = part.find(call.initial_state, ring.slot, head, first_value, call.V);
  uint4 bits[Part::loads];
  part.fetch(place, call.V, bits);
  copy_u(replay, ring, head, first_value, old);
  for_each_token([&](auto& token, int t) { token.fetch_values(call, n, t, head, first_value); });
  if (const int c = threadIdx.x; c < K) {
    old.decay[c] = load_keys(call, replay, ring, head, c, old);
  }
  for_each_token([&](auto& token, int t) {
    token.put(call, head, tokens[t]);
    if (blockIdx.x != 0) return;
    token.for_each_raw(
        [&](unsigned c, std::uint32_t k, std::uint32_t g) { append(call, replay, ring, head, t, c, k, g); });
  });
  __pipeline_wait_prior(0);
  __syncthreads();
  for_each_token([&](auto& token, int t) {
    const Factors factors = token.factors(call, tokens[t]);
    if (threadIdx.x % (32 * Makers::each) == 0) tokens[t].factors = factors;
  });
  make_pairs<rule, K>(old.keys, ring.count, tokens, T, kWarps, pairs);
  __syncthreads();
  if (const int c = threadIdx.x; c < K) make_frames<rule, kMostTokens>(tokens, T, c, old.decay[c], false);
  __syncthreads();

  float u[kMostTokens] = {}, w[1] = {};
  for (int first = 0; first < T; first += kTokensAtOnce) {
    const int last = min(first + kTokensAtOnce, T);
#pragma unroll 1
    for (int t = first; t < last; ++t)
      part.template sum<rule>(bits, tokens[t].x, tokens[t].qd, sums.x[t - first], sums.qd[t - first]);
    __syncthreads();
    if (const int value = threadIdx.x; value < tile) {
      const RingValue ring_value(replay, ring, head, first_value + value);
      find_outputs<rule, kMostTokens>(call, tokens, first, last, value, value, sums, pairs, &old.u[0][value],
                                      tile, ring.count, u, w, [&](int t, float o) {
                                        put_o(t, value, o);
                                        *ring_value.u(ring.count + t) = u[t];
                                      });
    }
    if (last < T) __syncthreads();
  }
  if (!ring.fold) return;

  typename Part::Floats s;
  part.decayed(bits, old.decay, s);
#pragma unroll 1
  for (int m = 0; m < ring.count; ++m) part.add(old.keys[m], old.u[m], s);
  part.put(s, call.V, place);
}

}  // namespace

cudaError_t launch_replay_step(const ReplayCall& given, void* workspace, bool early, cudaStream_t stream) {
  ReplayCall replay = given;
  if (const cudaError_t error = place_host_indices(replay, workspace, stream); error != cudaSuccess)
    return error;
  const RecurrenceCall& tokens = replay.call;
  const DecodeCall call = decode_call(tokens, {}, tokens.read_slots, {});
  const bool all_bf16 = all_are_bf16(tokens, {});
  return with_sizes(
      all_bf16, tokens, tokens.initial_state, [&]<Inputs inputs, class State, int K, bool v_first>() {
        return with_flag(tokens.rule == Rule::delta, [&]<bool delta>(std::bool_constant<delta>) {
          constexpr Rule rule = delta ? Rule::delta : Rule::additive;
          if (tokens.T > 1) {
            return launch_blocks(replay_tokens<State, K, v_first, rule>, tokens, kTile<float, K>, kThreads, 0,
                                 early, stream, call, replay);
          }
          return with_flag(tokens.V == 128, [&]<bool wide>(std::bool_constant<wide>) {
            // Other sizes do without kernels for some dtype of inputs.
            constexpr int V = wide ? 128 : 64;
            constexpr Inputs used = wide && K == 128 ? inputs : Inputs::any;
            constexpr auto kernel = replay_token<used, State, K, V, v_first, rule>;
            using Memory = HeadMemory<HeadState<State, K, V, v_first>, K, V>;
            const int bytes = Memory::bytes(static_cast<int>(replay.ring.T), is_narrow<used>(call));
            if (const cudaError_t error = allow_shared_memory<kernel>(Memory::bytes(kMostPlaces, false));
                error != cudaSuccess)
              return error;
            return launch_blocks(kernel, tokens, V, kHeadThreads, bytes, early, stream, call, replay);
          });
        });
      });
}

}  // namespace fla::cuda
