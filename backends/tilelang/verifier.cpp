#include "backends/tilelang/verifier.h"

#include <algorithm>
#include <cstdint>

#include "backends/tilelang/sizes.h"

namespace fla::tilelang {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes that are read at once
constexpr std::int64_t kMostTokens =
    (std::int64_t{1} << 31) - 1 - 3 * kChunk;                   // one chunk further is counted
constexpr std::int64_t kFarthestToken = std::int64_t{1} << 25;  // elements; 64 of them are counted in 32 bits
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;  // of a grid

std::int64_t misalignment(const void* address, std::int64_t alignment) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address) %
                                   static_cast<std::uintptr_t>(alignment));
}

Verdict verify_rows(const char* name, const TensorView& rows) {
  if (rows.stride(3) != 1)
    return refuse("requires contiguous channels in {}, got stride {}", name, rows.stride(3));
  if (const std::int64_t off = misalignment(rows.data(), kAlignment); off != 0)
    return refuse("requires {} aligned to 16 bytes, got an address {} bytes off", name, off);
  for (const int axis : {0, 1, 2}) {
    if (rows.size(axis) > 1 && rows.stride(axis) % 8 != 0)
      return refuse("requires strides that are multiples of 8 in {}, got {}", name, rows.stride(axis));
  }
  return accept();
}

Verdict verify_parameter(const char* name, const TensorView& tensor, DType dtype) {
  if (tensor.defined() && tensor.dtype() != dtype && tensor.dtype() != DType::f32)
    return refuse("requires {} in the dtype of q, {}, or in f32, got {}", name, dtype, tensor.dtype());
  return accept();
}

Verdict verify_dtypes(const KdaArgs& args) {
  const DType dtype = args.q.dtype();
  if (dtype != DType::bf16 && dtype != DType::f16) return refuse("requires q in bf16 or f16, got {}", dtype);
  if (args.k.dtype() != dtype)
    return refuse("requires k in the dtype of q, {}, got {}", dtype, args.k.dtype());
  if (args.v.dtype() != dtype)
    return refuse("requires v in the dtype of q, {}, got {}", dtype, args.v.dtype());
  if (const Verdict verdict = verify_parameter("g", args.g, dtype); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_parameter("beta", args.beta, dtype); !verdict.ok()) return verdict;
  if (args.use_gate_in_kernel) {
    if (const Verdict verdict = verify_parameter("A_log", args.A_log, dtype); !verdict.ok()) return verdict;
    if (const Verdict verdict = verify_parameter("dt_bias", args.dt_bias, dtype); !verdict.ok())
      return verdict;
  }
  if (const TensorView& state = args.initial_state; state.defined() && state.dtype() != DType::f32)
    return refuse("requires an f32 initial_state, got {}", state.dtype());
  if (const TensorView& state = args.final_state; state.defined() && state.dtype() != DType::f32)
    return refuse("requires an f32 final_state, got {}", state.dtype());
  return accept();
}

Verdict verify_sizes(const KdaArgs& args) {
  const KdaSizes sizes = sizes_of(args);
  const bool packed = args.cu_seqlens.defined();
  if (sizes.K != 64 && sizes.K != 128 && sizes.K != 256)
    return refuse("requires K=64, K=128 or K=256, got {}", sizes.K);
  if (sizes.V % kColumns != 0) return refuse("requires a V that is a multiple of 64, got {}", sizes.V);
  if (sizes.T > kMostTokens) return refuse("requires fewer than 2^31-192 tokens, got {}", sizes.T);
  const std::int64_t columns = sizes.V / kColumns;
  if (sizes.N > kMostBlocks / std::max<std::int64_t>(sizes.HV * columns, 1))
    return refuse(
        "requires fewer than 2^31 blocks of 64 values in all heads of all sequences, got {} in each of {}",
        sizes.HV * columns, sizes.N);
  // A packed sequence's last chunk may be short.
  const std::int64_t chunks =
      packed ? sizes.T / kChunk + sizes.N : sizes.N * ((sizes.T + kChunk - 1) / kChunk);
  if (chunks > kMostBlocks / std::max<std::int64_t>(sizes.HV, 1))
    return refuse("requires fewer than 2^31 chunks of 64 tokens in all heads, got {} in each of {}", chunks,
                  sizes.HV);
  return accept();
}

}  // namespace

Verdict verify(const KdaArgs& args, const CudaDevice* device) {
  if (args.q.device().is_cpu()) return refuse("requires CUDA tensors, got {}", args.q.device());
  if (device == nullptr) return refuse("requires a GPU that is there, got {}", args.q.device());
  if (device->architecture() != kArchitecture)
    return refuse("requires compute capability 9.0, got {}.{}", device->major, device->minor);
  if (const Verdict verdict = verify_sizes(args); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_dtypes(args); !verdict.ok()) return verdict;
  if (args.q.size(1) == 0) return accept();  // no rows are read
  if (const Verdict verdict = verify_rows("q", args.q); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_rows("k", args.k); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_rows("v", args.v); !verdict.ok()) return verdict;
  if (const std::int64_t stride = args.g.stride(1);
      args.g.size(1) > 1 && (stride >= kFarthestToken || stride <= -kFarthestToken))
    return refuse("requires tokens of g less than 2^25 elements apart, got {}", stride);
  return args.out.defined() ? verify_rows("out", args.out) : accept();
}

Verdict verify(const Workspace& workspace, std::size_t bytes) {
  if (bytes == 0 || workspace.data == nullptr) return accept();
  if (workspace.bytes < bytes)
    return refuse("requires a workspace of {} bytes, got {}", bytes, workspace.bytes);
  if (const std::int64_t off = misalignment(workspace.data, 256); off != 0)
    return refuse("requires a workspace aligned to 256 bytes, got an address {} bytes off", off);
  return accept();
}

}  // namespace fla::tilelang
