#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/several.cuh"
#include "fla/ops/recurrence/cuda/with_rule.h"

/// Two to kMostTokens tokens for every sequence, and those whose states are kept: the state is read once for
/// all of them (several.cuh) and written once,
///
///     S <- diag(D_0T) S + sum (D_tT k_t) u_t^T
///
/// or, where the state after a token goes to its checkpoint, token by token.
namespace fla::cuda {
namespace {

struct StepsCall : DecodeCall {
  int tokens;
  Checkpoints checkpoints;
  AcceptedTokens accepted;
};

template <Inputs inputs, class State, int K, bool v_first, Rule rule, int most>
__global__ void __launch_bounds__(kThreads* kParts<kTile<float, K>>, 6 / kParts<kTile<float, K>>)
    steps(const __grid_constant__ StepsCall call, std::int64_t first_sequence) {
  using Part = decode_parts::Part<State, float, K, v_first>;
  constexpr int loads = Part::loads, tile = Part::tile, kBlockParts = kParts<tile>,
                kBlockTile = kBlockParts * tile, kBlockWarps = kBlockParts * kWarps;
  using Token = StepMemory<
      std::conditional_t<rule == Rule::low_rank, PairMemory<K, kBlockTile>, TokenMemory<K, kBlockTile>>>;
  using Makers = decode_parts::Makers<most, kBlockWarps>;
  __shared__ Token tokens[most];
  alignas(16) __shared__ float decay[K];  // of all tokens
  __shared__ Pairs<rule, most, 0> pairs;
  __shared__ Sums<Part, most> sums[kBlockParts];
  __shared__ Added<rule, most, tile> added[kBlockParts];

  const Part part(threadIdx.x);
  const int part_index = threadIdx.x / kThreads, head = blockIdx.y, first_value = blockIdx.x * kBlockTile,
            part_value = first_value + part_index * tile;
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  const int T = call.tokens;
  wait_for_kernel_before();
  const Slots slots = slots_of(call, call.accepted, n);
  const auto put_o = [&](int t, int value, float x) {
    const std::int64_t at = call.o.at(n, t, head, first_value + value);
    void* const o = const_cast<void*>(call.o.data);
    store(o, inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype, at, x);
  };
  if (slots.read < 0) {
    for (int t = 0; t < T; ++t) {
      if (threadIdx.x < kBlockTile) put_o(t, threadIdx.x, 0);
    }
    return;
  }

  TokenVectors<inputs, rule, K, kBlockTile, Makers::each> vectors[Makers::rounds];
  const auto for_each_token = [&](auto&& body) { Makers::for_each(vectors, T, body); };
  for_each_token([&](auto& token, int t) { token.fetch(call, n, t, head); });
  uint4 bits[loads] = {};
  if (call.initial_state.data)
    part.fetch(part.find(call.initial_state, slots.read, head, part_value, call.V), call.V, bits);
  for_each_token([&](auto& token, int t) { token.fetch_values(call, n, t, head, first_value); });
  for_each_token([&](auto& token, int t) { token.put(call, head, tokens[t]); });
  if (const int t = threadIdx.x; t < T) tokens[t].kept = call.checkpoints.slot_after(n, t + 1);
  __syncthreads();
  for_each_token([&](auto& token, int t) {
    const Factors factors = token.factors(call, tokens[t]);
    if (threadIdx.x % (32 * Makers::each) == 0) tokens[t].factors = factors;
  });
  make_pairs<rule, K>(static_cast<const float(*)[K]>(nullptr), 0, tokens, T, kBlockWarps, pairs);
  __syncthreads();
  const bool each = call.checkpoints.every != 0;
  if (const int c = threadIdx.x; c < K) decay[c] = make_frames<rule, most>(tokens, T, c, 1, !each);
  __syncthreads();

#pragma unroll 1
  for (int t = 0; t < T; ++t)
    part.template sum<rule>(bits, tokens[t].x, tokens[t].qd, sums[part_index].x[t], sums[part_index].qd[t]);
  __syncthreads();
  if (const int index = threadIdx.x; index < kBlockTile) {
    const int own = index / tile, value = index % tile;
    float u[most] = {}, w[rule == Rule::low_rank ? most : 1] = {};
    find_outputs<rule, most>(call, tokens, 0, T, index, value, sums[own], pairs, nullptr, 0, 0, u, w,
                             [&](int t, float o) {
                               put_o(t, index, o);
                               added[own].u[t][value] = u[t];
                               if constexpr (rule == Rule::low_rank) added[own].w[t][value] = w[t];
                             });
  }
  const bool writes = call.final_state.data && slots.write >= 0;
  if (!writes && !each) return;
  __syncthreads();

  typename Part::Floats s;
  part.decayed(bits, each ? tokens[0].d : decay, s);
#pragma unroll 1
  for (int t = 0; t < T; ++t) {
    const Token& token = tokens[t];
    if (each && t > 0) part.decay(token.d, s);
    part.add(token.k, added[part_index].u[t], s);
    if constexpr (rule == Rule::low_rank) part.add(token.b, added[part_index].w[t], s);
    if (token.kept >= 0)
      part.put(s, call.V, part.find(call.checkpoints.of(n), token.kept, head, part_value, call.V));
  }
  if (writes) part.put(s, call.V, part.find(call.final_state, slots.write, head, part_value, call.V));
}

}  // namespace

cudaError_t launch_steps(const DecodeCall& one, const RecurrenceCall& given, const CallExtras& extras,
                         bool early, cudaStream_t stream) {
  const StepsCall call{one, static_cast<int>(given.T), extras.checkpoints, extras.accepted};
  const States& states = given.initial_state.data ? given.initial_state
                         : given.final_state.data ? given.final_state
                                                  : extras.checkpoints.states;
  const bool all_bf16 = all_are_bf16(given, extras.pair);
  return with_sizes(all_bf16, given, states, [&]<Inputs inputs, class State, int K, bool v_first>() {
    return with_rule(given.rule, [&]<Rule rule>(std::integral_constant<Rule, rule>) {
      constexpr int tile = kTile<float, K>, values = tile * kParts<tile>, threads = kThreads * kParts<tile>;
      // With fewer of them more warps make each; for types of inputs that are rare the one does.
      if constexpr (inputs == Inputs::bf16) {
        if (call.tokens <= kMostTokens / 2)
          return launch_blocks(steps<inputs, State, K, v_first, rule, kMostTokens / 2>, given, values,
                               threads, 0, early, stream, call);
      }
      return launch_blocks(steps<inputs, State, K, v_first, rule, kMostTokens>, given, values, threads, 0,
                           early, stream, call);
    });
  });
}

}  // namespace fla::cuda
