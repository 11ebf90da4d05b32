#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fla/core/errors.h"
#include "fla/ops/dplr_delta_rule/dplr_delta_rule.h"

/// RWKV-7 under its own names: r for q, w for g, and a scale of 1. It is dplr_delta_rule, whose backends,
/// settings and counters serve it, and whose header has the formula and the rest of the contract.
namespace fla {

struct Rwkv7Args {
  TensorView r{};       ///< [B, T, H, K] receptance
  TensorView w{};       ///< [B, T, HV, K] log-decay of every channel
  TensorView k{};       ///< [B, T, H, K]
  TensorView v{};       ///< [B, T, HV, V]
  TensorView a{}, b{};  ///< [B, T, H, K] what the low-rank part reads, and where it writes that
  std::optional<float> scale = 1.0f;
  TensorView initial_state{};  ///< [P, HV, K, V]; state_v_first: [P, HV, V, K]
  bool output_final_state = false;
  bool state_v_first = false;
  TensorView cu_seqlens{}, state_indices{}, state_write_indices{};
  TensorView checkpoint_indices{};   ///< [N, C]
  TensorView num_accepted_tokens{};  ///< [N]
  TensorView out{}, final_state{};
  std::optional<std::int64_t> checkpoint_every{};
  TensorView checkpoints{};  ///< [N, C, HV, K, V]; state_v_first: [N, C, HV, V, K]
  Stream stream{};
  Workspace workspace{};
};

/// The same call under dplr_delta_rule's names.
inline DplrDeltaRuleArgs dplr_of(const Rwkv7Args& args) {
  return {.q = args.r,
          .k = args.k,
          .v = args.v,
          .a = args.a,
          .b = args.b,
          .g = args.w,
          .scale = args.scale,
          .initial_state = args.initial_state,
          .output_final_state = args.output_final_state,
          .state_v_first = args.state_v_first,
          .cu_seqlens = args.cu_seqlens,
          .state_indices = args.state_indices,
          .state_write_indices = args.state_write_indices,
          .checkpoint_indices = args.checkpoint_indices,
          .num_accepted_tokens = args.num_accepted_tokens,
          .out = args.out,
          .final_state = args.final_state,
          .checkpoint_every = args.checkpoint_every,
          .checkpoints = args.checkpoints,
          .stream = args.stream,
          .workspace = args.workspace};
}

/// The arguments of chunk_rwkv7_backward: the forward call's, and gradients in and out.
struct Rwkv7BackwardArgs {
  TensorView r{}, w{}, k{}, v{}, a{}, b{};
  std::optional<float> scale = 1.0f;
  TensorView initial_state{};
  bool state_v_first = false;
  TensorView cu_seqlens{};
  TensorView do_{};  ///< [B, T, HV, V] the gradient of o
  TensorView dht{};  ///< like initial_state, that of the final state; zeros when left out
  TensorView dr{}, dw{}, dk{}, dv{}, da{}, db{}, dinitial_state{};  ///< memory for gradients
  Stream stream{};
  Workspace workspace{};
};

inline DplrDeltaRuleBackwardArgs dplr_of(const Rwkv7BackwardArgs& args) {
  return {.q = args.r,
          .k = args.k,
          .v = args.v,
          .a = args.a,
          .b = args.b,
          .g = args.w,
          .scale = args.scale,
          .initial_state = args.initial_state,
          .state_v_first = args.state_v_first,
          .cu_seqlens = args.cu_seqlens,
          .do_ = args.do_,
          .dht = args.dht,
          .dq = args.dr,
          .dk = args.dk,
          .dv = args.dv,
          .da = args.da,
          .db = args.db,
          .dg = args.dw,
          .dinitial_state = args.dinitial_state,
          .stream = args.stream,
          .workspace = args.workspace};
}

namespace recurrence {

/// An argument's name here.
inline std::string_view rwkv7_name(std::string_view of_dplr) {
  for (const auto& [theirs, ours] :
       {std::pair<std::string_view, std::string_view>{"q", "r"}, {"g", "w"}, {"dq", "dr"}, {"dg", "dw"}}) {
    if (of_dplr == theirs) return ours;
  }
  return of_dplr;
}

/// function(the call), errors under rwkv7's names.
template <class Args, class Function>
auto as_rwkv7(const Args& args, Function&& function) {
  try {
    return function(dplr_of(args));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(rwkv7_name(error.argument()), error.problem(), "rwkv7");
  }
}

}  // namespace recurrence

inline RecurrenceResult rwkv7(const Rwkv7Args& args) { return recurrence::as_rwkv7(args, &dplr_delta_rule); }
inline RecurrenceResult chunk_rwkv7(const Rwkv7Args& args) {
  return recurrence::as_rwkv7(args, &chunk_dplr_delta_rule);
}
inline RecurrenceResult fused_recurrent_rwkv7(const Rwkv7Args& args) {
  return recurrence::as_rwkv7(args, &fused_recurrent_dplr_delta_rule);
}
inline std::size_t workspace_size(const Rwkv7Args& args) {
  return recurrence::as_rwkv7(args, [](const DplrDeltaRuleArgs& call) { return workspace_size(call); });
}

/// The gradients of chunk_rwkv7's inputs: that of r is dq, that of w is dg.
inline RecurrenceGradients chunk_rwkv7_backward(const Rwkv7BackwardArgs& args) {
  return recurrence::as_rwkv7(args, &chunk_dplr_delta_rule_backward);
}
inline std::size_t workspace_size(const Rwkv7BackwardArgs& args) {
  return recurrence::as_rwkv7(args,
                              [](const DplrDeltaRuleBackwardArgs& call) { return workspace_size(call); });
}

}  // namespace fla
