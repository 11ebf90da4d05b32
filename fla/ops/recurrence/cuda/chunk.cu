#include <algorithm>

#include "fla/ops/recurrence/cuda/chunk_launch.h"
#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/padded_keys.h"

namespace fla::cuda {
namespace {

/// The template parameters of the kernels that serve a call.
template <int KP_, Decay decay_, Rule rule_>
struct Form {
  static constexpr int KP = KP_;
  static constexpr Decay decay = decay_;
  static constexpr Rule rule = rule_;
};

template <class Body>
auto with_form(const RecurrenceCall& call, Body&& body) {
  // Only kda has kernels for K <= 32. Other ops use those for 64, which keeps compile time down.
  const bool others = call.gate_kind != GateKind::channel || call.rule != Rule::delta;
  return with_padded_keys(others ? std::max(call.K, 33) : call.K, [&]<int KP>(Constant<KP>) {
    using Kda = Form<KP, Decay::channel, Rule::delta>;
    if constexpr (KP == 32) {
      return body(Kda{});
    } else {
      const bool delta = call.rule == Rule::delta;
      if (call.gate_kind == GateKind::channel)
        return delta ? body(Kda{}) : body(Form<KP, Decay::channel, Rule::additive>{});
      return delta ? body(Form<KP, Decay::token, Rule::delta>{})
                   : body(Form<KP, Decay::token, Rule::additive>{});
    }
  });
}

}  // namespace

std::size_t chunk_workspace(const RecurrenceCall& call, const CallExtras& extras) {
  if (call.rule == Rule::low_rank) return recurrent_workspace(call, extras);
  return index_workspace(call, extras) + with_form(call, [&]<class F>(F) {
           return ChunkWorkspace<F::KP, F::decay, F::rule>::bytes(call,
                                                                  chunk_places<chunk_size(F::KP)>(call));
         });
}

cudaError_t launch_chunk(const RecurrenceCall& given, const CallExtras& given_extras, void* workspace,
                         cudaStream_t stream) {
  // Where sequences start from accepted tokens, every token has a checkpoint.
  const bool between_chunks = given_extras.checkpoints.every % chunk_size(given.K) == 0;
  if (given.rule == Rule::low_rank || !between_chunks)
    return launch_recurrent(given, given_extras, workspace, stream);
  RecurrenceCall call = given;
  CallExtras extras = given_extras;
  void* const operators = static_cast<char*>(workspace) + index_workspace(call, extras);
  if (const cudaError_t error = place_host_indices(call, extras, workspace, stream); error != cudaSuccess)
    return error;
  const cudaError_t error = launch_chunk_operators(call, operators, stream);
  return error == cudaSuccess ? launch_chunk_states(call, extras, operators, stream) : error;
}

cudaError_t launch_chunk_operators(const RecurrenceCall& call, void* operators, cudaStream_t stream) {
  if (call.rule == Rule::low_rank) return cudaSuccess;
  return with_form(
      call, [&]<class F>(F) { return launch_operators<F::KP, F::decay, F::rule>(call, operators, stream); });
}

cudaError_t launch_chunk_states(const RecurrenceCall& call, const CallExtras& extras, void* operators,
                                cudaStream_t stream) {
  if (call.rule == Rule::low_rank) return launch_recurrent(call, extras, operators, stream);
  return with_form(call, [&]<class F>(F) {
    return launch_states<F::KP, F::decay, F::rule>(call, extras.checkpoints, operators, stream);
  });
}

}  // namespace fla::cuda
