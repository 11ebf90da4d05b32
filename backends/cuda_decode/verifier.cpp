#include "backends/cuda_decode/verifier.h"

#include <cstdint>
#include <limits>

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

/// Checks every axis except tokens, of which there is one.
Verdict verify_strides(const char* name, const TensorView& tensor) {
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    FLA_REFUSE_IF((axis != 1 || tensor.rank() < 3) && !fits(tensor.size(axis), tensor.stride(axis)),
                  "requires strides from 0 to 2^32-1 in {}, got {}", name, tensor.stride(axis));
  }
  return accept();
}

Verdict verify_state(const char* name, const TensorView& state) {
  if (!state.defined()) return accept();
  FLA_REFUSE_IF(state.stride(3) != 1 || state.stride(2) != state.size(3),
                "requires contiguous states in {}, got strides {} and {}", name, state.stride(2),
                state.stride(3));
  const std::int64_t off = cuda::misalignment(state.data(), kAlignment);
  FLA_REFUSE_IF(off != 0, "requires {} aligned to 16 bytes, got an address {} bytes off", name, off);
  const auto size = static_cast<std::int64_t>(size_of(state.dtype()));
  FLA_REFUSE_IF(state.size(0) > 1 && state.stride(0) * size % kAlignment != 0,
                "requires slots of {} at multiples of 16 bytes, got stride {}", name, state.stride(0));
  FLA_REFUSE_IF(state.size(1) > 1 && state.stride(1) * size % kAlignment != 0,
                "requires heads of {} at multiples of 16 bytes, got stride {}", name, state.stride(1));
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
  FLA_VERIFY(verify_strides("dt_bias", args.dt_bias));
  if (const TensorView& bias = args.dt_bias;
      bias.defined() && bias.rank() == 1 && args.op.gate == GateKind::channel) {
    // From one head to the next it is K strides.
    const std::int64_t K = args.q.size(3), stride = bias.stride(0);
    FLA_REFUSE_IF(stride < 0 || stride > std::numeric_limits<std::uint32_t>::max() / K,
                  "requires strides from 0 to 2^32-1 in {}, got {}", "dt_bias", stride);
  }
  return accept();
}

}  // namespace

std::size_t workspace_bytes(const recurrence::Arguments& args) {
  const auto on_host = [](const TensorView& indices) {
    return indices.defined() && indices.device().is_cpu();
  };
  return cuda::index_workspace(args.q.size(0), false, on_host(args.state_indices),
                               on_host(args.state_write_indices));
}

Verdict verify(const recurrence::Arguments& args, const CudaDevice* device) {
  FLA_VERIFY(cuda::verify_device(args, device, kDevices));
  FLA_REFUSE_IF(args.checkpoint_every.has_value(), "requires a call without checkpoints");
  FLA_REFUSE_IF(args.cu_seqlens.defined(),
                "requires sequences that are not packed, got cu_seqlens of {} entries",
                args.cu_seqlens.size(0));
  FLA_REFUSE_IF(args.q.size(1) != 1, "requires T=1, got {}", args.q.size(1));
  const std::int64_t K = args.q.size(3), V = args.v.size(3), HV = args.v.size(2);
  FLA_REFUSE_IF(K != 64 && K != 128, "requires K=64 or K=128, got {}", K);
  FLA_REFUSE_IF(V != 64 && V != 128, "requires V=64 or V=128, got {}", V);
  FLA_REFUSE_IF(HV > kMostHeads, "requires at most 65535 value heads, got {}", HV);
  FLA_VERIFY(verify_vectors(args));
  FLA_VERIFY(verify_state("initial_state", args.initial_state));
  FLA_VERIFY(verify_state("final_state", args.final_state));
  FLA_REFUSE_IF(args.initial_state.defined() && args.final_state.defined() &&
                    args.initial_state.dtype() != args.final_state.dtype(),
                "requires both states in one dtype, got {} and {}", args.initial_state.dtype(),
                args.final_state.dtype());
  return cuda::verify_workspace(args.workspace, workspace_bytes(args));
}

}  // namespace fla::cuda_decode
