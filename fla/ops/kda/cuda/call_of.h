#pragma once

#include "fla/ops/kda/cuda/kda_call.h"
#include "fla/ops/kda/kda.h"

/// The call that validated arguments stand for, on tensors of a CUDA device. `result` is where its results
/// go.
namespace fla::cuda {

inline Rows rows_of(const TensorView& tensor) {
  Rows rows{.data = tensor.data(),
            .dtype = tensor.dtype(),
            .batch = tensor.stride(0),
            .token = tensor.stride(1),
            .head = tensor.stride(2)};
  if (tensor.rank() != 4) return rows;
  rows.channel = tensor.stride(3);
  const std::size_t four = 4 * size_of(rows.dtype);
  rows.packed = rows.channel == 1 && tensor.size(3) % 4 == 0 &&
                reinterpret_cast<std::uintptr_t>(rows.data) % four == 0 && rows.batch % 4 == 0 &&
                rows.token % 4 == 0 && rows.head % 4 == 0;
  return rows;
}

inline States states_of(const TensorView& tensor, bool v_first) {
  if (!tensor.defined()) return {};
  return {.data = tensor.data(),
          .dtype = tensor.dtype(),
          .slots = tensor.size(0),
          .slot = tensor.stride(0),
          .head = tensor.stride(1),
          .key = tensor.stride(v_first ? 3 : 2),
          .value = tensor.stride(v_first ? 2 : 3)};
}

inline Indices indices_of(const TensorView& tensor) {
  if (!tensor.defined()) return {};
  return {.data = tensor.data(),
          .wide = tensor.dtype() == DType::i64,
          .on_host = tensor.device().is_cpu(),
          .stride = tensor.stride(0)};
}

inline KdaCall call_of(const KdaArgs& args, const KdaResult& result) {
  const KdaSizes sizes = sizes_of(args);
  KdaCall call{.T = sizes.T,
               .N = sizes.N,
               .HV = static_cast<int>(sizes.HV),
               .K = static_cast<int>(sizes.K),
               .V = static_cast<int>(sizes.V),
               .group = static_cast<int>(sizes.HV / sizes.H),
               .q = rows_of(args.q),
               .k = rows_of(args.k),
               .v = rows_of(args.v),
               .g = rows_of(args.g),
               .beta = rows_of(args.beta),
               .o = rows_of(result.o),
               .scale = scale_of(args),
               .l2norm = args.use_qk_l2norm_in_kernel,
               .beta_sigmoid = args.use_beta_sigmoid_in_kernel,
               .neg_eigval = args.allow_neg_eigval,
               .initial_state = states_of(args.initial_state, args.state_v_first),
               .final_state = states_of(result.final_state, args.state_v_first),
               .read_slots = indices_of(args.state_indices),
               .write_slots = indices_of(args.state_write_indices),
               .cu_seqlens = indices_of(args.cu_seqlens)};
  if (args.use_gate_in_kernel) {
    call.gate = args.lower_bound ? Gate::bounded : Gate::softplus;
    call.lower_bound = args.lower_bound.value_or(0);
    if (const TensorView& A_log = args.A_log; A_log.defined()) {
      call.A_log = {.data = A_log.data(), .dtype = A_log.dtype(), .head = A_log.stride(0)};
    }
    if (const TensorView& bias = args.dt_bias; bias.defined()) {
      const bool flat = bias.rank() == 1;
      call.dt_bias = {.data = bias.data(),
                      .dtype = bias.dtype(),
                      .head = bias.stride(0) * (flat ? sizes.K : 1),
                      .channel = bias.stride(flat ? 0 : 1)};
    }
  }
  return call;
}

}  // namespace fla::cuda
