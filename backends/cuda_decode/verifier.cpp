#include "backends/cuda_decode/verifier.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "backends/cuda_decode/limits.h"
#include "fla/ops/common/cuda/index_workspace.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::cuda_decode {
namespace {

constexpr std::int64_t kMostHeads = 65535;  // blocks along y of a grid
constexpr std::int64_t kAlignment = 16;     // bytes of state that a thread reads at once

/// Kernels keep strides in 32 bits. That of an axis with one element is never used.
bool fits(std::int64_t size, std::int64_t stride) {
  return size <= 1 || (stride >= 0 && stride <= std::numeric_limits<std::uint32_t>::max());
}

Verdict verify_strides(const char* name, const TensorView& tensor) {
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    FLA_REFUSE_IF(!fits(tensor.size(axis), tensor.stride(axis)),
                  "requires strides from 0 to 2^32-1 in {}, got {}", name, tensor.stride(axis));
  }
  return accept();
}

/// States, or the checkpoints of sequences.
Verdict verify_state(const char* name, const TensorView& state) {
  if (!state.defined()) return accept();
  const int column = state.rank() - 1, row = column - 1, head = row - 1, slot = head - 1;
  FLA_REFUSE_IF(state.stride(column) != 1 || state.stride(row) != state.size(column),
                "requires contiguous states in {}, got strides {} and {}", name, state.stride(row),
                state.stride(column));
  const std::int64_t off = cuda::misalignment(state.data(), kAlignment);
  FLA_REFUSE_IF(off != 0, "requires {} aligned to 16 bytes, got an address {} bytes off", name, off);
  const auto size = static_cast<std::int64_t>(size_of(state.dtype()));
  const auto is_off = [&](int axis) {
    return state.size(axis) > 1 && state.stride(axis) * size % kAlignment != 0;
  };
  FLA_REFUSE_IF(slot > 0 && is_off(0), "requires sequences of {} at multiples of 16 bytes, got stride {}",
                name, state.stride(0));
  FLA_REFUSE_IF(is_off(slot), "requires slots of {} at multiples of 16 bytes, got stride {}", name,
                state.stride(slot));
  FLA_REFUSE_IF(is_off(head), "requires heads of {} at multiples of 16 bytes, got stride {}", name,
                state.stride(head));
  return accept();
}

/// A state that the call makes has the type of the one that it starts from, or f32.
Verdict verify_dtypes(const recurrence::Arguments& args) {
  const bool made = args.output_final_state && !args.final_state.defined() && !args.initial_state.defined();
  std::optional<DType> dtype;
  if (made) dtype = DType::f32;
  for (const TensorView* states : {&args.initial_state, &args.final_state, &args.checkpoints}) {
    if (!states->defined()) continue;
    FLA_REFUSE_IF(dtype && *dtype != states->dtype(), "requires all states in one dtype, got {} and {}",
                  *dtype, states->dtype());
    dtype = states->dtype();
  }
  return accept();
}

Verdict verify_sizes(std::int64_t K, std::int64_t V, std::int64_t HV) {
  FLA_REFUSE_IF(K != 64 && K != 128, "requires K=64 or K=128, got {}", K);
  FLA_REFUSE_IF(V != 64 && V != 128, "requires V=64 or V=128, got {}", V);
  FLA_REFUSE_IF(HV > kMostHeads, "requires at most 65535 value heads, got {}", HV);
  return accept();
}

Verdict verify_sizes(const recurrence::Arguments& args) {
  const std::int64_t T = args.q.size(1);
  FLA_REFUSE_IF(T < 1 || T > kMostTokens, "requires T from 1 to {}, got {}", kMostTokens, T);
  return verify_sizes(args.q.size(3), args.v.size(3), args.v.size(2));
}

/// What is added to gates, of K channels.
Verdict verify_bias(const TensorView& bias, GateKind gate, std::int64_t K) {
  FLA_VERIFY(verify_strides("dt_bias", bias));
  if (!bias.defined() || bias.rank() != 1 || gate != GateKind::channel) return accept();
  // From one head to the next it is K strides.
  const std::int64_t stride = bias.stride(0);
  FLA_REFUSE_IF(stride < 0 || stride > std::numeric_limits<std::uint32_t>::max() / K,
                "requires strides from 0 to 2^32-1 in {}, got {}", "dt_bias", stride);
  return accept();
}

Verdict verify_vectors(const recurrence::Arguments& args) {
  FLA_VERIFY(verify_strides("q", args.q));
  FLA_VERIFY(verify_strides("k", args.k));
  FLA_VERIFY(verify_strides("v", args.v));
  FLA_VERIFY(verify_strides("g", args.g));
  FLA_VERIFY(verify_strides("g_gamma", args.g_gamma));
  FLA_VERIFY(verify_strides("beta", args.beta));
  FLA_VERIFY(verify_strides("a", args.a));
  FLA_VERIFY(verify_strides("b", args.b));
  FLA_VERIFY(verify_strides("out", args.out));
  FLA_VERIFY(verify_strides("A_log", args.A_log));
  return verify_bias(args.dt_bias, args.op.gate, args.q.size(3));
}

bool on_host(const TensorView& indices) { return indices.defined() && indices.device().is_cpu(); }

}  // namespace

std::size_t workspace_bytes(const recurrence::ReplayArguments& args) {
  std::int64_t entries = 0;
  for (const TensorView* indices : {&args.call.state_indices, &args.ring_begin, &args.ring_end})
    entries += on_host(*indices) ? indices->size(0) : 0;
  return cuda::index_bytes(entries);
}

std::size_t workspace_bytes(const recurrence::Arguments& args) {
  const std::int64_t N = args.q.size(0);
  return cuda::index_workspace(N, false, on_host(args.state_indices), on_host(args.state_write_indices)) +
         cuda::kept_index_workspace(N, on_host(args.num_accepted_tokens),
                                    on_host(args.checkpoint_indices) ? args.checkpoint_indices.size(1) : 0);
}

std::size_t workspace_bytes(const step::Arguments& args) {
  return cuda::index_bytes(on_host(args.state_indices) ? args.state_indices.size(0) : 0);
}

Verdict verify(const step::Arguments& args, const CudaDevice* device) {
  FLA_VERIFY(cuda::verify_device(args.x.device(), device, kDevices));
  const step::Sizes sizes = step::sizes_of(args);
  FLA_VERIFY(verify_sizes(sizes.K, sizes.V, sizes.HV));
  FLA_VERIFY(verify_strides("x", args.x));
  FLA_VERIFY(verify_strides("conv_weight", args.conv_weight));
  FLA_VERIFY(verify_strides("conv_state", args.conv_state));
  FLA_VERIFY(verify_strides("g", args.g));
  FLA_VERIFY(verify_strides("beta", args.beta));
  FLA_VERIFY(verify_strides("z", args.z));
  FLA_VERIFY(verify_strides("conv_bias", args.conv_bias));
  FLA_VERIFY(verify_strides("A_log", args.A_log));
  FLA_VERIFY(verify_bias(args.dt_bias, args.op.recurrence.gate, sizes.K));
  FLA_VERIFY(verify_strides("norm_weight", args.norm_weight));
  FLA_VERIFY(verify_strides("out", args.out));
  FLA_VERIFY(verify_state("state", args.state));
  return cuda::verify_workspace(args.workspace, workspace_bytes(args));
}

Verdict verify(const recurrence::ReplayArguments& args, const CudaDevice* device) {
  const recurrence::Arguments& call = args.call;
  FLA_VERIFY(cuda::verify_device(call, device, kDevices));
  FLA_REFUSE_IF(call.op.rule == Rule::low_rank, "requires a rule with one key a token, got {}",
                call.op.name.data());
  FLA_VERIFY(verify_sizes(call));
  FLA_VERIFY(verify_vectors(call));
  FLA_VERIFY(verify_state("state", args.state));
  return cuda::verify_workspace(call.workspace, workspace_bytes(args));
}

Verdict verify(const recurrence::Arguments& args, const CudaDevice* device) {
  FLA_VERIFY(cuda::verify_device(args, device, kDevices));
  FLA_REFUSE_IF(args.cu_seqlens.defined(),
                "requires sequences that are not packed, got cu_seqlens of {} entries",
                args.cu_seqlens.size(0));
  FLA_VERIFY(verify_sizes(args));
  FLA_VERIFY(verify_vectors(args));
  FLA_VERIFY(verify_state("initial_state", args.initial_state));
  FLA_VERIFY(verify_state("final_state", args.final_state));
  FLA_VERIFY(verify_state("checkpoints", args.checkpoints));
  FLA_VERIFY(verify_dtypes(args));
  return cuda::verify_workspace(args.workspace, workspace_bytes(args));
}

}  // namespace fla::cuda_decode
