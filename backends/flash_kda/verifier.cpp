#include "backends/flash_kda/verifier.h"

#include <algorithm>
#include <cstdint>

#include "backends/flash_kda/sizes.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::flash_kda {
namespace {

constexpr std::int64_t kAlignment = 16;                    // bytes, of all that the accelerator is told
constexpr std::int64_t kFarthest = std::int64_t{1} << 40;  // bytes of a stride
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1 - kChunk;
constexpr std::int64_t kMostChunks = (std::int64_t{1} << 31) - 1;  // of all heads: they are numbered
constexpr float kWeakestBound = -1e-30f;                           // its inverse is a factor

Verdict verify_rows(const char* name, const TensorView& rows) {
  FLA_VERIFY(cuda::verify_channels(name, rows));
  const auto size = static_cast<std::int64_t>(size_of(rows.dtype()));
  for (const int axis : {0, 1, 2}) {
    const std::int64_t stride = rows.stride(axis);
    if (rows.size(axis) <= 1) continue;
    FLA_REFUSE_IF(stride <= 0 || stride >= kFarthest / size,
                  "requires strides above 0 and below 2^40 bytes in {}, got {}", name, stride);
    FLA_REFUSE_IF(stride * size % kAlignment != 0,
                  "requires strides that are multiples of 16 bytes in {}, got {}", name, stride);
  }
  return accept();
}

Verdict verify_dtypes(const recurrence::Arguments& args) {
  FLA_VERIFY(cuda::verify_16_bits(args));
  FLA_VERIFY(cuda::verify_dtype_of_q("g", args.g, args.q.dtype()));
  return cuda::verify_f32_states(args);
}

Verdict verify_sizes(const recurrence::Arguments& args) {
  const bool packed = args.cu_seqlens.defined();
  const struct {
    std::int64_t T, HV, K, V, N;
  } sizes{args.q.size(1), args.v.size(2), args.q.size(3), args.v.size(3),
          packed ? args.cu_seqlens.size(0) - 1 : args.q.size(0)};
  FLA_REFUSE_IF(sizes.K != kHead && sizes.K != kHead / 2, "requires K=64 or K=128, got {}", sizes.K);
  FLA_REFUSE_IF(sizes.V <= 0 || sizes.V > 2 * kHead || sizes.V % (kHead / 2) != 0,
                "requires V of 64, 128, 192 or 256, got {}", sizes.V);
  FLA_REFUSE_IF(sizes.T > kMostTokens, "requires fewer than 2^31-64 tokens, got {}", sizes.T);
  FLA_REFUSE_IF(packed && sizes.N > kMostSequences, "requires at most 8192 packed sequences, got {}",
                sizes.N);
  FLA_REFUSE_IF(sizes.N > kMostChunks / std::max<std::int64_t>(sizes.HV, 1),
                "requires fewer than 2^31 value heads in all sequences, got {} in each of {}", sizes.HV,
                sizes.N);
  // A packed sequence's last chunk may be short.
  const std::int64_t chunks =
      packed ? sizes.T / kChunk + sizes.N : sizes.N * ((sizes.T + kChunk - 1) / kChunk);
  FLA_REFUSE_IF(chunks * sizes.HV > kMostChunks,
                "requires fewer than 2^31 chunks of 64 tokens in all heads, got {}", chunks * sizes.HV);
  return accept();
}

}  // namespace

Verdict verify(const recurrence::Arguments& args, const CudaDevice* device) {
  FLA_VERIFY(cuda::verify_device(args, device, kDevices));
  FLA_REFUSE_IF(args.checkpoint_every.has_value(), "requires a call without checkpoints");
  FLA_REFUSE_IF(args.normalize, "requires outputs that are not normalized");
  FLA_VERIFY(verify_sizes(args));
  FLA_VERIFY(verify_dtypes(args));
  FLA_REFUSE_IF(args.use_gate_in_kernel && args.lower_bound && *args.lower_bound > kWeakestBound,
                "requires a lower_bound of at most -1e-30, got {}", *args.lower_bound);
  if (args.q.size(1) == 0) return accept();  // no rows are read
  FLA_VERIFY(verify_rows("q", args.q));
  FLA_VERIFY(verify_rows("k", args.k));
  FLA_VERIFY(verify_rows("v", args.v));
  if (args.op.gate == GateKind::channel) FLA_VERIFY(verify_rows("g", args.g));
  return args.out.defined() ? verify_rows("out", args.out) : accept();
}

}  // namespace fla::flash_kda
