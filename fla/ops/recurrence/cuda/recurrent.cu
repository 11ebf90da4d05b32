#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/padded_keys.h"
#include "fla/ops/recurrence/cuda/steps.cuh"
#include "fla/ops/recurrence/cuda/with_rule.h"

namespace fla::cuda {
namespace {

/// `checkpointed` is apart, since what it costs in registers shows in decoding.
template <int KP, Rule rule, bool checkpointed>
__global__ void __launch_bounds__(kThreads, KP > 128 ? 2 : 4)
    recurrent(const __grid_constant__ RecurrenceCall call, const __grid_constant__ CallExtras extras) {
  __shared__ StepTiles<KP, rule> tiles;

  const int blocks = (call.V + kStepValues - 1) / kStepValues;
  const StepPlace place{.head = static_cast<int>(blockIdx.x / blocks % call.HV),
                        .first_value = static_cast<int>(blockIdx.x % blocks) * kStepValues};
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const Sequence sequence = sequence_of(call, n);
  const Slots slots = checkpointed ? slots_of(call, extras.accepted, n) : slots_of(call, n);
  const bool skip = slots.read < 0;

  const auto key = [&](int i) { return place.key(i); };
  const auto value = [&](int i) { return place.value(i); };
  const auto in_state = [&](int i) { return value(i) < call.V && key(i) < call.K; };
  float s[KP / 4];
  if (!skip) load_state(call.initial_state, slots.read, place.head, key, value, in_state, s);
  if (rule == Rule::additive && call.normalize) {
    for (int i = threadIdx.x; i < KP; i += kThreads) tiles.z[i] = 0;
  }

  TokenLoader<kStepTokens, KP, Decays::plain> tokens(call, place.head);
  [[maybe_unused]] const Checkpoints& checkpoints = extras.checkpoints;
  for (std::int64_t t0 = sequence.begin; t0 < sequence.end;) {
    int count = static_cast<int>(min(sequence.end - t0, std::int64_t{kStepTokens}));
    if constexpr (checkpointed) {  // a checkpoint ends the tile
      const std::int64_t left = checkpoints.every - (t0 - sequence.begin) % checkpoints.every;
      count = static_cast<int>(min(left, std::int64_t{count}));
    }
    const TokenRange range{sequence.batch, t0, count};
    if (!skip) {
      load_tokens(call, extras.pair, place, tokens, range, tiles);
      for (int t = 0; t < count; ++t) advance(tiles, place, t, s);
      __syncthreads();
    }
    store_outputs(call, place, range, skip, tiles);
    t0 += checkpointed ? count : kStepTokens;
    if constexpr (checkpointed) {
      if (!skip) store_checkpoint(call, checkpoints, n, t0, place.head, key, value, in_state, s);
    }
  }

  if (!skip) store_state(call.final_state, slots.write, place.head, key, value, in_state, s);
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
  const std::int64_t blocks = call.N * call.HV * ((call.V + kStepValues - 1) / kStepValues);
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
