#include "backends/cuda_decode/verifier.h"

#include <cstdint>
#include <limits>

#include "fla/ops/kda/cuda/index_workspace.h"
#include "fla/ops/kda/cuda/verdicts.h"

namespace fla::cuda_decode {
namespace {

constexpr std::int64_t kMostHeads = 65535;  // blocks along y of a grid
constexpr std::int64_t kAlignment = 16;     // bytes of state that a thread reads at once

/// Kernels keep strides in 32 bits. That of an axis with one element is never used.
bool fits(std::int64_t size, std::int64_t stride) {
  return size <= 1 || (stride >= 0 && stride <= std::numeric_limits<std::uint32_t>::max());
}

Verdict verify_strides(const char* name, const TensorView& tensor, std::initializer_list<int> axes) {
  for (const int axis : axes) {
    if (!fits(tensor.size(axis), tensor.stride(axis)))
      return refuse("requires strides from 0 to 2^32-1 in {}, got {}", name, tensor.stride(axis));
  }
  return accept();
}

Verdict verify_state(const char* name, const TensorView& state) {
  if (!state.defined()) return accept();
  if (state.stride(3) != 1 || state.stride(2) != state.size(3)) {
    return refuse("requires contiguous states in {}, got strides {} and {}", name, state.stride(2),
                  state.stride(3));
  }
  if (const std::int64_t off = cuda::misalignment(state.data(), kAlignment); off != 0)
    return refuse("requires {} aligned to 16 bytes, got an address {} bytes off", name, off);
  const auto size = static_cast<std::int64_t>(size_of(state.dtype()));
  if (state.size(0) > 1 && state.stride(0) * size % kAlignment != 0)
    return refuse("requires slots of {} at multiples of 16 bytes, got stride {}", name, state.stride(0));
  if (state.size(1) > 1 && state.stride(1) * size % kAlignment != 0)
    return refuse("requires heads of {} at multiples of 16 bytes, got stride {}", name, state.stride(1));
  return accept();
}

Verdict verify_vectors(const KdaArgs& args) {
  if (const Verdict verdict = verify_strides("q", args.q, {0, 2, 3}); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_strides("k", args.k, {0, 2, 3}); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_strides("v", args.v, {0, 2, 3}); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_strides("g", args.g, {0, 2, 3}); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_strides("beta", args.beta, {0, 2}); !verdict.ok()) return verdict;
  if (args.out.defined()) {
    if (const Verdict verdict = verify_strides("out", args.out, {0, 2, 3}); !verdict.ok()) return verdict;
  }
  if (args.A_log.defined()) {
    if (const Verdict verdict = verify_strides("A_log", args.A_log, {0}); !verdict.ok()) return verdict;
  }
  if (const TensorView& bias = args.dt_bias; bias.defined() && bias.rank() == 2)
    return verify_strides("dt_bias", bias, {0, 1});
  if (const TensorView& bias = args.dt_bias; bias.defined()) {
    // From one head to the next it is K strides.
    const std::int64_t K = args.q.size(3), stride = bias.stride(0);
    if (stride < 0 || stride > std::numeric_limits<std::uint32_t>::max() / K)
      return refuse("requires strides from 0 to 2^32-1 in {}, got {}", "dt_bias", stride);
  }
  return accept();
}

}  // namespace

std::size_t workspace_bytes(const KdaArgs& args) {
  const auto on_host = [](const TensorView& indices) {
    return indices.defined() && indices.device().is_cpu();
  };
  return cuda::index_workspace(args.q.size(0), false, on_host(args.state_indices),
                               on_host(args.state_write_indices));
}

Verdict verify(const KdaArgs& args, const CudaDevice* device) {
  if (const Verdict verdict = cuda::verify_device(args, device, kDevices); !verdict.ok()) return verdict;
  if (args.cu_seqlens.defined())
    return refuse("requires sequences that are not packed, got cu_seqlens of {} entries",
                  args.cu_seqlens.size(0));
  if (args.q.size(1) != 1) return refuse("requires T=1, got {}", args.q.size(1));
  const std::int64_t K = args.q.size(3), V = args.v.size(3), HV = args.v.size(2);
  if (K != 64 && K != 128) return refuse("requires K=64 or K=128, got {}", K);
  if (V != 64 && V != 128) return refuse("requires V=64 or V=128, got {}", V);
  if (HV > kMostHeads) return refuse("requires at most 65535 value heads, got {}", HV);
  if (const Verdict verdict = verify_vectors(args); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_state("initial_state", args.initial_state); !verdict.ok())
    return verdict;
  if (const Verdict verdict = verify_state("final_state", args.final_state); !verdict.ok()) return verdict;
  if (args.initial_state.defined() && args.final_state.defined() &&
      args.initial_state.dtype() != args.final_state.dtype()) {
    return refuse("requires both states in one dtype, got {} and {}", args.initial_state.dtype(),
                  args.final_state.dtype());
  }
  return cuda::verify_workspace(args.workspace, workspace_bytes(args));
}

}  // namespace fla::cuda_decode
