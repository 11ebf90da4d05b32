#include "backends/flash_kda/verifier.h"

#include <algorithm>
#include <cstdint>

#include "backends/flash_kda/sizes.h"

namespace fla::flash_kda {
namespace {

constexpr std::int64_t kAlignment = 16;                    // bytes, of all that the accelerator is told
constexpr std::int64_t kFarthest = std::int64_t{1} << 40;  // bytes of a stride
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1 - kChunk;
constexpr std::int64_t kMostChunks = (std::int64_t{1} << 31) - 1;  // of all heads: they are numbered
constexpr float kWeakestBound = -1e-30f;                           // its inverse is a factor

std::int64_t misalignment(const void* address, std::int64_t alignment) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address) %
                                   static_cast<std::uintptr_t>(alignment));
}

Verdict verify_rows(const char* name, const TensorView& rows) {
  if (rows.stride(3) != 1)
    return refuse("requires contiguous channels in {}, got stride {}", name, rows.stride(3));
  if (const std::int64_t off = misalignment(rows.data(), kAlignment); off != 0)
    return refuse("requires {} aligned to 16 bytes, got an address {} bytes off", name, off);
  const auto size = static_cast<std::int64_t>(size_of(rows.dtype()));
  for (const int axis : {0, 1, 2}) {
    const std::int64_t stride = rows.stride(axis);
    if (rows.size(axis) <= 1) continue;
    if (stride <= 0 || stride >= kFarthest / size)
      return refuse("requires strides above 0 and below 2^40 bytes in {}, got {}", name, stride);
    if (stride * size % kAlignment != 0)
      return refuse("requires strides that are multiples of 16 bytes in {}, got {}", name, stride);
  }
  return accept();
}

Verdict verify_dtypes(const KdaArgs& args) {
  const DType dtype = args.q.dtype();
  if (dtype != DType::bf16 && dtype != DType::f16) return refuse("requires q in bf16 or f16, got {}", dtype);
  if (args.k.dtype() != dtype)
    return refuse("requires k in the dtype of q, {}, got {}", dtype, args.k.dtype());
  if (args.v.dtype() != dtype)
    return refuse("requires v in the dtype of q, {}, got {}", dtype, args.v.dtype());
  if (args.g.dtype() != dtype && args.g.dtype() != DType::f32)
    return refuse("requires g in the dtype of q, {}, or in f32, got {}", dtype, args.g.dtype());
  if (const TensorView& state = args.initial_state; state.defined() && state.dtype() != DType::f32)
    return refuse("requires an f32 initial_state, got {}", state.dtype());
  if (const TensorView& state = args.final_state; state.defined() && state.dtype() != DType::f32)
    return refuse("requires an f32 final_state, got {}", state.dtype());
  return accept();
}

Verdict verify_sizes(const KdaArgs& args) {
  const KdaSizes sizes = sizes_of(args);
  const bool packed = args.cu_seqlens.defined();
  if (sizes.K != kHead && sizes.K != kHead / 2) return refuse("requires K=64 or K=128, got {}", sizes.K);
  if (sizes.V != kHead && sizes.V != kHead / 2) return refuse("requires V=64 or V=128, got {}", sizes.V);
  if (sizes.T > kMostTokens) return refuse("requires fewer than 2^31-64 tokens, got {}", sizes.T);
  if (packed && sizes.N > kMostSequences)
    return refuse("requires at most 8192 packed sequences, got {}", sizes.N);
  if (sizes.N > kMostChunks / std::max<std::int64_t>(sizes.HV, 1))
    return refuse("requires fewer than 2^31 value heads in all sequences, got {} in each of {}", sizes.HV,
                  sizes.N);
  // A packed sequence's last chunk may be short.
  const std::int64_t chunks =
      packed ? sizes.T / kChunk + sizes.N : sizes.N * ((sizes.T + kChunk - 1) / kChunk);
  if (chunks * sizes.HV > kMostChunks)
    return refuse("requires fewer than 2^31 chunks of 64 tokens in all heads, got {}", chunks * sizes.HV);
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
  if (args.use_gate_in_kernel && args.lower_bound && *args.lower_bound > kWeakestBound)
    return refuse("requires a lower_bound of at most -1e-30, got {}", *args.lower_bound);
  if (args.q.size(1) == 0) return accept();  // no rows are read
  if (const Verdict verdict = verify_rows("q", args.q); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_rows("k", args.k); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_rows("v", args.v); !verdict.ok()) return verdict;
  if (const Verdict verdict = verify_rows("g", args.g); !verdict.ok()) return verdict;
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

}  // namespace fla::flash_kda
