#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/padded_keys.h"
#include "fla/ops/recurrence/cuda/ring_indices.cuh"
#include "fla/ops/recurrence/cuda/steps.cuh"
#include "fla/ops/recurrence/cuda/with_rule.h"

/// A step over rings, token by token as steps.cuh says: the ring's tokens first, then the call's. A block
/// appends what its values have added; keys and gates are appended by the first block of their head. Nobody
/// reads the places that are appended to (replay_call.h).
namespace fla::cuda {
namespace {

/// What a token's row goes to.
struct Append {
  const Rows& from;
  const Rows& to;
  int head, channels;
};

/// Copies rows of some tokens as they are. All threads of the block call this.
__device__ void append(const Append& rows, const TokenRange& range, const Ring& ring, int first) {
  const Rows &from = rows.from, &to = rows.to;
  for (int i = threadIdx.x; i < range.count * rows.channels; i += kThreads) {
    const int t = i / rows.channels, c = i % rows.channels;
    const std::uint32_t bits = load_bits(
        from.data, is_16_bit(from.dtype),
        range.batch * from.batch + (range.first + t) * from.token + rows.head * from.head + c * from.channel);
    const std::int64_t at =
        ring.slot * to.batch + ring.place(first + t) * to.token + rows.head * to.head + c * to.channel;
    if (is_16_bit(to.dtype)) {
      static_cast<std::uint16_t*>(to.data)[at] = static_cast<std::uint16_t>(bits);
    } else {
      static_cast<std::uint32_t*>(to.data)[at] = bits;
    }
  }
}

/// What keys are multiplied with before they meet the state: u has it in the ring. A warp takes a token at a
/// time.
__device__ void make_key_factors(const RecurrenceCall& call, const TokenRange& range, int key_head,
                                 float* factors) {
  const Rows& k = call.k;
  for (int t = static_cast<int>(threadIdx.x) / 32; t < range.count; t += kWarps) {
    float sum = 0;
    for (int i = threadIdx.x % 32; i < call.K; i += 32) {
      const float x =
          load(k.data, k.dtype,
               range.batch * k.batch + (range.first + t) * k.token + key_head * k.head + i * k.channel);
      sum += x * x;
    }
    sum = reduce(sum);
    if (threadIdx.x % 32 == 0) factors[t] = rsqrtf(sum + 1e-6f);
  }
}

template <int KP, Rule rule>
__global__ void __launch_bounds__(kThreads, KP > 128 ? 2 : 4)
    replay(const __grid_constant__ ReplayCall replay) {
  __shared__ StepTiles<KP, rule> tiles;
  __shared__ float w[rule == Rule::low_rank ? kStepTokens : 1][kStepValues], factors[kStepTokens];

  const RecurrenceCall& call = replay.call;
  const int blocks = (call.V + kStepValues - 1) / kStepValues;
  const StepPlace place{.head = static_cast<int>(blockIdx.x / blocks % call.HV),
                        .first_value = static_cast<int>(blockIdx.x % blocks) * kStepValues};
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const Ring ring = ring_of(replay, n);
  const bool skip = ring.slot < 0;

  const auto key = [&](int i) { return place.key(i); };
  const auto value = [&](int i) { return place.value(i); };
  const auto in_state = [&](int i) { return value(i) < call.V && key(i) < call.K; };
  float s[KP / 4];
  if (!skip) load_state(call.initial_state, ring.slot, place.head, key, value, in_state, s);

  TokenLoader<kStepTokens, KP, Decays::plain> old_tokens(replay.ring, place.head);
  for (int i = 0; i < ring.count;) {
    const int at = ring.place(i), left = min(ring.count - i, ring.size - at);
    const TokenRange range{ring.slot, at, min(left, kStepTokens)};
    const HeldValues u(replay.ring, replay.ring.v, place, range);
    old_tokens.load(range, tiles.q, tiles.k, tiles.d, tiles.beta);
    if constexpr (rule == Rule::low_rank) {
      load_rows<kStepTokens, KP>(replay.ring_b, place.head / call.group, call.K, range, tiles.pair.b);
      HeldValues(replay.ring, replay.ring_w, place, range).put(replay.ring_w.dtype, w);
    }
    u.put(replay.ring.v.dtype, tiles.v);
    __syncthreads();
    for (int t = 0; t < range.count; ++t) {
#pragma unroll
      for (int e = 0; e < KP / 4; e += 4) {
        decay_four(four_keys<KP>(tiles.d, place, t, e), s, e);
        if constexpr (rule == Rule::low_rank)
          add_four(four_keys<KP>(tiles.pair.b, place, t, e), w[t][place.column], s, e);
        add_four(four_keys<KP>(tiles.k, place, t, e), tiles.v[t][place.column], s, e);
      }
    }
    __syncthreads();
    i += range.count;
  }
  if (ring.fold) store_state(call.final_state, ring.slot, place.head, key, value, in_state, s);

  if (rule == Rule::additive && call.normalize) {
    for (int i = threadIdx.x; i < KP; i += kThreads) tiles.z[i] = 0;
  }
  const int T = static_cast<int>(call.T), key_head = place.head / call.group;
  TokenLoader<kStepTokens, KP, Decays::plain> tokens(call, place.head);
  for (int t0 = 0; t0 < T; t0 += kStepTokens) {
    const TokenRange range{n, t0, min(T - t0, kStepTokens)};
    if (!skip) {
      if (rule == Rule::delta && call.l2norm) make_key_factors(call, range, key_head, factors);
      load_tokens(call, replay.pair, place, tokens, range, tiles);
      for (int t = 0; t < range.count; ++t) {
        const StepAdded added = advance(tiles, place, t, s);
        if (place.part != 0 || value(0) >= call.V) continue;
        const auto put = [&](const Rows& rows, float x) {
          static_cast<float*>(
              rows.data)[ring.slot * rows.batch + ring.place(ring.count + t0 + t) * rows.token +
                         place.head * rows.head + value(0) * rows.channel] = x;
        };
        put(replay.ring.v, rule == Rule::delta && call.l2norm ? added.u * factors[t] : added.u);
        if constexpr (rule == Rule::low_rank) put(replay.ring_w, added.w);
      }
      if (place.first_value == 0) {
        const int first = ring.count + t0;
        if (place.head % call.group == 0) {
          append({call.k, replay.ring.k, key_head, call.K}, range, ring, first);
          if constexpr (rule == Rule::low_rank)
            append({replay.pair.b, replay.ring_b, key_head, call.K}, range, ring, first);
        }
        if (call.g.data && call.gate_kind != GateKind::head) {
          const int channels = call.gate_kind == GateKind::channel ? call.K : 1;
          append({call.g, replay.ring.g, place.head, channels}, range, ring, first);
        }
      }
      __syncthreads();
    }
    store_outputs(call, place, range, skip, tiles);
    __syncthreads();
  }
}

}  // namespace

std::size_t replay_workspace(const ReplayCall& replay) {
  const std::int64_t N = replay.call.N;
  std::int64_t entries = 0;
  for (const Indices* indices : {&replay.call.read_slots, &replay.begin, &replay.end})
    entries += indices->on_host ? N : 0;
  return index_bytes(entries);
}

cudaError_t launch_replay(const ReplayCall& given, void* workspace, cudaStream_t stream) {
  ReplayCall call = given;
  if (const cudaError_t error = place_host_indices(call, workspace, stream); error != cudaSuccess)
    return error;
  const RecurrenceCall& tokens = call.call;
  const std::int64_t blocks = tokens.N * tokens.HV * ((tokens.V + kStepValues - 1) / kStepValues);
  return with_padded_keys(tokens.K, [&]<int KP>(Constant<KP>) {
    return with_rule(tokens.rule, [&]<Rule rule>(std::integral_constant<Rule, rule>) {
      return launch_blocks<replay<KP, rule>, 0>(blocks, kThreads, stream, call);
    });
  });
}

}  // namespace fla::cuda
