#include "backends/cuda_backward/verifier.h"

#include <algorithm>
#include <cstdint>

namespace fla::cuda_backward {
namespace {

constexpr std::int64_t kChunk = 64;                                // tokens
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;  // of a grid

Verdict verify_sizes(const recurrence::Arguments& args) {
  const std::int64_t K = args.q.size(3), V = args.v.size(3), T = args.q.size(1);
  FLA_REFUSE_IF(K != 64 && K != 128, "requires K=64 or K=128, got {}", K);
  FLA_REFUSE_IF(V != 64 && V != 128, "requires V=64 or V=128, got {}", V);
  const bool packed = args.cu_seqlens.defined();
  const std::int64_t N = packed ? args.cu_seqlens.size(0) - 1 : args.q.size(0);
  // A packed sequence's last chunk may be short; a sequence's states take four blocks.
  const std::int64_t chunks = packed ? T / kChunk + N : N * ((T + kChunk - 1) / kChunk);
  const std::int64_t HV = std::max<std::int64_t>(args.v.size(2), 1);
  FLA_REFUSE_IF(chunks > kMostBlocks / HV - 4 * N,
                "requires fewer than 2^31 chunks of 64 tokens in all heads, got {} in each of {}", chunks,
                HV);
  return accept();
}

}  // namespace

Verdict verify(const recurrence::BackwardArguments& args, const CudaDevice* device) {
  const recurrence::Arguments& call = args.call;
  FLA_VERIFY(cuda::verify_device(call, device, kDevices));
  FLA_VERIFY(cuda::verify_16_bits(call));
  FLA_REFUSE_IF(args.do_.dtype() != call.q.dtype(), "requires do in the dtype of q, {}, got {}",
                call.q.dtype(), args.do_.dtype());
  FLA_VERIFY(verify_sizes(call));
  FLA_REFUSE_IF(!call.use_qk_l2norm_in_kernel, "requires use_qk_l2norm_in_kernel");
  const auto verify_rows = [](const char* name, const TensorView& rows) {
    return rows.defined() ? cuda::verify_rows_of_8(name, rows) : accept();
  };
  FLA_VERIFY(verify_rows("q", call.q));
  FLA_VERIFY(verify_rows("k", call.k));
  FLA_VERIFY(verify_rows("v", call.v));
  FLA_VERIFY(verify_rows("do", args.do_));
  if (call.op.gate == GateKind::channel) {
    FLA_VERIFY(verify_rows("g", call.g));
    FLA_VERIFY(verify_rows("dg", args.dg));
  }
  FLA_VERIFY(verify_rows("dq", args.dq));
  FLA_VERIFY(verify_rows("dk", args.dk));
  FLA_VERIFY(verify_rows("dv", args.dv));
  return accept();
}

}  // namespace fla::cuda_backward
