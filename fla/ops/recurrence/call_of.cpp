#include "fla/ops/recurrence/call_of.h"

#include <cmath>

#include "fla/ops/common/views_of.h"

namespace fla::recurrence {

namespace {

struct CallSizes {
  std::int64_t T, N, H, HV, K, V;
};

RecurrenceCall call_of(const Arguments& args, const RecurrenceResult& result, const CallSizes& sizes) {
  const std::int64_t K = sizes.K, HV = sizes.HV;
  RecurrenceCall call{.T = sizes.T,
                      .N = sizes.N,
                      .HV = static_cast<int>(HV),
                      .K = static_cast<int>(K),
                      .V = static_cast<int>(sizes.V),
                      .group = static_cast<int>(HV / sizes.H),
                      .q = common::rows_of(args.q),
                      .k = common::rows_of(args.k),
                      .v = common::rows_of(args.v),
                      .g = common::rows_of(args.g),
                      .beta = common::rows_of(args.beta),
                      .o = common::rows_of(result.o),
                      .scale = args.scale ? *args.scale : 1 / std::sqrt(static_cast<float>(K)),
                      .l2norm = args.use_qk_l2norm_in_kernel,
                      .beta_sigmoid = args.use_beta_sigmoid_in_kernel,
                      .neg_eigval = args.allow_neg_eigval,
                      .state_v_first = args.state_v_first,
                      .gate_kind = args.g_gamma.defined() ? GateKind::head : args.op.gate,
                      .rule = args.op.rule,
                      .head_gate = args.op.head_gate,
                      .normalize = args.normalize,
                      .initial_state = common::states_of(args.initial_state, args.state_v_first),
                      .final_state = common::states_of(result.final_state, args.state_v_first),
                      .read_slots = common::indices_of(args.state_indices),
                      .write_slots = common::indices_of(args.state_write_indices),
                      .cu_seqlens = common::indices_of(args.cu_seqlens)};
  if (call.head_gate == HeadGate::slopes) {
    const auto layer = static_cast<float>(*args.layer_idx), layers = static_cast<float>(*args.num_layers);
    call.head_slope = 8 / static_cast<float>(HV) * (1 - layer / layers);
  }
  if (args.g_gamma.defined()) {  // the same for every token
    const common::Parameters gamma = common::parameters_of(args.g_gamma);
    call.g = {.data = args.g_gamma.data(), .dtype = gamma.dtype, .head = gamma.head};
  }
  if (!call.initial_state.data)
    call.initial_state.slots = call.final_state.data ? call.final_state.slots : common::kAnySlot;
  if (args.use_gate_in_kernel) {
    call.gate = args.lower_bound ? common::GateInput::bounded : common::GateInput::softplus;
    call.lower_bound = args.lower_bound.value_or(0);
    call.A_log = common::parameters_of(args.A_log);
    call.dt_bias = common::parameters_of(args.dt_bias, args.op.gate == GateKind::channel ? K : 0);
  }
  return call;
}

}  // namespace

RecurrenceCall call_of(const Arguments& args, const RecurrenceResult& result) {
  return call_of(args, result,
                 {.T = args.q.size(1),
                  .N = args.cu_seqlens.defined() ? args.cu_seqlens.size(0) - 1 : args.q.size(0),
                  .H = args.q.size(2),
                  .HV = args.v.size(2),
                  .K = args.q.size(3),
                  .V = args.v.size(3)});
}

ReplayCall call_of(const ReplayArguments& args, const ReplayResult& result) {
  const Arguments& given = args.call;
  ReplayCall replay{.call = call_of(given, {.o = {}, .final_state = {}},
                                    {.T = args.folds ? 0 : given.q.size(1),
                                     .N = args.ring_begin.size(0),
                                     .H = args.ring_k.size(2),
                                     .HV = args.ring_u.size(2),
                                     .K = args.ring_k.size(3),
                                     .V = args.ring_u.size(3)}),
                    .pair = pair_of(given),
                    .ring = {},
                    .ring_b = common::rows_of(args.ring_b),
                    .ring_w = common::rows_of(args.ring_w),
                    .begin = common::indices_of(args.ring_begin),
                    .end = common::indices_of(args.ring_end),
                    .folds = args.folds};
  RecurrenceCall& call = replay.call;
  call.o = common::rows_of(result.o);
  call.initial_state = call.final_state = common::states_of(args.state, given.state_v_first);
  replay.ring = call;
  RecurrenceCall& ring = replay.ring;
  ring.T = args.ring_k.size(1);
  ring.N = args.ring_k.size(0);
  ring.q = ring.k = common::rows_of(args.ring_k);
  ring.v = common::rows_of(args.ring_u);
  if (args.ring_g.defined()) ring.g = common::rows_of(args.ring_g);
  ring.beta = ring.o = {};
  ring.rule = Rule::additive;
  ring.l2norm = ring.beta_sigmoid = ring.neg_eigval = ring.normalize = false;
  ring.read_slots = {};
  return replay;
}

LowRankPair pair_of(const Arguments& args) { return {common::rows_of(args.a), common::rows_of(args.b)}; }

CallExtras extras_of(const Arguments& args) {
  CallExtras extras{.pair = pair_of(args)};
  if (!args.checkpoint_every) return extras;
  if (const TensorView& slots = args.checkpoint_indices; slots.defined()) {
    extras.checkpoints = {.states = common::states_of(args.final_state, args.state_v_first),
                          .every = *args.checkpoint_every,
                          .count = slots.size(1),
                          .slots = common::index_rows_of(slots)};
    extras.accepted = {.count = common::indices_of(args.num_accepted_tokens),
                       .most = slots.size(1),
                       .slots = extras.checkpoints.slots};
    return extras;
  }
  const TensorView& all = args.checkpoints;
  const TensorView first(all.data(), all.dtype(), all.shape().subspan(1), all.strides().subspan(1));
  extras.checkpoints = {.states = common::states_of(first, args.state_v_first),
                        .sequence = all.stride(0) * static_cast<std::int64_t>(size_of(all.dtype())),
                        .every = *args.checkpoint_every,
                        .count = all.size(1)};
  return extras;
}

BackwardCall call_of(const BackwardArguments& args, const RecurrenceGradients& result) {
  const bool v_first = args.call.state_v_first;
  const std::int64_t channels = args.call.op.gate == GateKind::channel ? args.call.q.size(3) : 0;
  return {.call = call_of(args.call, RecurrenceResult{}),
          .pair = pair_of(args.call),
          .do_ = common::rows_of(args.do_),
          .dht = common::states_of(args.dht, v_first),
          .dq = common::rows_of(result.dq),
          .dk = common::rows_of(result.dk),
          .dv = common::rows_of(result.dv),
          .dg = common::rows_of(result.dg),
          .dbeta = common::rows_of(result.dbeta),
          .da = common::rows_of(result.da),
          .db = common::rows_of(result.db),
          .dinitial_state = common::states_of(result.dinitial_state, v_first),
          .dg_gamma = common::parameters_of(result.dg_gamma),
          .dA_log = common::parameters_of(result.dA_log),
          .ddt_bias = common::parameters_of(result.ddt_bias, channels)};
}

RecurrenceCall forward_summary_of(const SummaryArguments& args, const RecurrenceSummary& result) {
  return call_of(args.call, {.o = {}, .final_state = Tensor::over(result.R)});
}

BackwardCall backward_summary_of(const SummaryArguments& args, const RecurrenceSummary& result) {
  const bool v_first = args.call.state_v_first;
  BackwardCall back{.call = call_of(args.call, {}),
                    .pair = pair_of(args.call),
                    .do_ = common::rows_of(args.do_),
                    .dht = common::states_of(args.dht, v_first),
                    .dinitial_state = common::states_of(result.R, v_first)};
  back.call.initial_state = {.slots = common::kAnySlot};  // nothing in R depends on it
  return back;
}

RecurrenceCall transition_of(const SummaryArguments& args, const RecurrenceSummary& result, const float* zero,
                             const float* identity) {
  const bool diagonal = args.call.op.rule == Rule::additive, transposed = args.do_.defined();
  const TensorView& P = result.P;
  const RecurrenceCall call = call_of(args.call, {});
  return transition_of(call,
                       {.data = P.data(),
                        .slots = call.N,
                        .slot = P.stride(0),
                        .head = P.stride(1),
                        .key = P.stride(!diagonal && transposed ? 3 : 2),
                        .value = diagonal ? 0 : P.stride(transposed ? 2 : 3)},
                       zero, identity);
}

}  // namespace fla::recurrence
