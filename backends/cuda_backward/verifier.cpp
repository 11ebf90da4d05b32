#include "backends/cuda_backward/verifier.h"

#include <algorithm>
#include <cstdint>

namespace fla::cuda_backward {
namespace {

constexpr std::int64_t kChunk = 64, kPiece = 8;                    // tokens; elements of 16 bytes
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;  // of a grid

Verdict verify_rows(const char* name, const TensorView& rows, DType dtype) {
  FLA_REFUSE_IF(rows.dtype() != dtype, "requires {} in the dtype of q, {}, got {}", name, dtype,
                rows.dtype());
  FLA_VERIFY(cuda::verify_channels(name, rows));
  for (const int axis : {0, 1, 2}) {
    FLA_REFUSE_IF(rows.size(axis) > 1 && rows.stride(axis) % kPiece != 0,
                  "requires strides that are multiples of 8 in {}, got {}", name, rows.stride(axis));
  }
  return accept();
}

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
  const DType dtype = call.q.dtype();
  FLA_REFUSE_IF(dtype != DType::bf16 && dtype != DType::f16, "requires q in bf16 or f16, got {}", dtype);
  FLA_VERIFY(verify_sizes(call));
  FLA_REFUSE_IF(!call.use_qk_l2norm_in_kernel, "requires use_qk_l2norm_in_kernel");
  FLA_VERIFY(verify_rows("q", call.q, dtype));
  FLA_VERIFY(verify_rows("k", call.k, dtype));
  FLA_VERIFY(verify_rows("v", call.v, dtype));
  FLA_VERIFY(verify_rows("do", args.do_, dtype));
  if (call.op.gate == GateKind::channel) {
    FLA_VERIFY(verify_rows("g", call.g, call.g.dtype()));
    if (args.dg.defined()) FLA_VERIFY(verify_rows("dg", args.dg, args.dg.dtype()));
  }
  if (args.dq.defined()) FLA_VERIFY(verify_rows("dq", args.dq, dtype));
  if (args.dk.defined()) FLA_VERIFY(verify_rows("dk", args.dk, dtype));
  if (args.dv.defined()) FLA_VERIFY(verify_rows("dv", args.dv, dtype));
  return accept();
}

}  // namespace fla::cuda_backward
