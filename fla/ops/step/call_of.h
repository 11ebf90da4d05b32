#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fla/core/export.h"
#include "fla/ops/step/arguments.h"
#include "fla/ops/step/call.h"

namespace fla::step {

/// Memory between the parts of a step, each row-major, of x's dtype.
struct Between {
  void *qkv = nullptr,  ///< [B, 1, D], what the convolution makes
      *o = nullptr;     ///< [B, 1, HV, V], what the recurrence answers
};

/// body(arguments): those of the step's recurrence, over q, k and v between the parts.
template <class Body>
decltype(auto) with_recurrence(const Arguments& args, const Between& between, Body&& body) {
  const Sizes sizes = sizes_of(args);
  const std::int64_t D = args.x.size(2), keys = sizes.H * sizes.K;
  const auto element = static_cast<std::int64_t>(size_of(args.x.dtype()));
  const auto heads = [&](std::int64_t begin, std::int64_t count, std::int64_t channels) {
    auto* const at = static_cast<const std::byte*>(between.qkv);
    return TensorView(at == nullptr ? at : at + begin * element, args.x.dtype(),
                      std::array{sizes.B, std::int64_t{1}, count, channels},
                      std::array{D, D, channels, std::int64_t{1}}, args.x.device());
  };
  const TensorView q = heads(0, sizes.H, sizes.K), k = heads(keys, sizes.H, sizes.K),
                   v = heads(2 * keys, sizes.HV, sizes.V);
  const TensorView& none = recurrence::kAbsent;
  return body(recurrence::Arguments{.op = args.op.recurrence,
                                    .table = {},
                                    .args = nullptr,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .g = args.g,
                                    .g_gamma = none,
                                    .beta = args.beta,
                                    .a = none,
                                    .b = none,
                                    .initial_state = args.state,
                                    .A_log = args.A_log,
                                    .dt_bias = args.dt_bias,
                                    .cu_seqlens = none,
                                    .state_indices = args.state_indices,
                                    .state_write_indices = none,
                                    .checkpoint_indices = none,
                                    .num_accepted_tokens = none,
                                    .out = none,
                                    .final_state = args.state,
                                    .checkpoints = none,
                                    .scale = args.scale,
                                    .lower_bound = args.lower_bound,
                                    .layer_idx = {},
                                    .num_layers = {},
                                    .checkpoint_every = {},
                                    .output_final_state = false,
                                    .use_qk_l2norm_in_kernel = args.use_qk_l2norm_in_kernel,
                                    .use_gate_in_kernel = args.use_gate_in_kernel,
                                    .use_beta_sigmoid_in_kernel = args.use_beta_sigmoid_in_kernel,
                                    .allow_neg_eigval = args.allow_neg_eigval,
                                    .safe_gate = args.safe_gate,
                                    .state_v_first = args.state_v_first,
                                    .normalize = false,
                                    .stream = args.stream,
                                    .workspace = args.workspace});
}

/// The call that validated arguments stand for. `result` is where its results go.
FLA_API StepCall call_of(const Arguments& args, const StepResult& result, const Between& between = {});

}  // namespace fla::step
