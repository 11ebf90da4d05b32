#include "backends/flash_kda/verifier.h"

#include <algorithm>
#include <cstdint>

#include "backends/flash_kda/sizes.h"
#include "fla/ops/kda/cuda/verdicts.h"

namespace fla::flash_kda {
namespace {

constexpr std::int64_t kAlignment = 16;                    // bytes, of all that the accelerator is told
constexpr std::int64_t kFarthest = std::int64_t{1} << 40;  // bytes of a stride
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1 - kChunk;
constexpr std::int64_t kMostChunks = (std::int64_t{1} << 31) - 1;  // of all heads: they are numbered
constexpr float kWeakestBound = -1e-30f;                           // its inverse is a factor

Verdict verify_rows(const char* name, const TensorView& rows) {
  if (const Verdict verdict = cuda::verify_channels(name, rows); !verdict.ok()) return verdict;
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
  if (const Verdict verdict = cuda::verify_16_bits(args); !verdict.ok()) return verdict;
  if (const Verdict verdict = cuda::verify_dtype_of_q("g", args.g, args.q.dtype()); !verdict.ok())
    return verdict;
  return cuda::verify_f32_states(args);
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
  if (const Verdict verdict = cuda::verify_device(args, device, kDevices); !verdict.ok()) return verdict;
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

}  // namespace fla::flash_kda
