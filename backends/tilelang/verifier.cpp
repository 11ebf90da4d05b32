#include "backends/tilelang/verifier.h"

#include <algorithm>
#include <cstdint>

#include "backends/tilelang/sizes.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::tilelang {
namespace {

constexpr std::int64_t kMostTokens =
    (std::int64_t{1} << 31) - 1 - 3 * kChunk;                   // one chunk further is counted
constexpr std::int64_t kFarthestToken = std::int64_t{1} << 25;  // elements; 64 of them are counted in 32 bits
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;  // of a grid

Verdict verify_dtypes(const recurrence::Arguments& args) {
  FLA_VERIFY(cuda::verify_16_bits(args));
  const auto verify_parameter = [&](const char* name, const TensorView& tensor) {
    return cuda::verify_dtype_of_q(name, tensor, args.q.dtype());
  };
  FLA_VERIFY(verify_parameter("g", args.g));
  FLA_VERIFY(verify_parameter("beta", args.beta));
  if (args.use_gate_in_kernel) {
    FLA_VERIFY(verify_parameter("A_log", args.A_log));
    FLA_VERIFY(verify_parameter("dt_bias", args.dt_bias));
  }
  return cuda::verify_f32_states(args);
}

Verdict verify_sizes(const recurrence::Arguments& args) {
  const bool packed = args.cu_seqlens.defined();
  const struct {
    std::int64_t T, HV, K, V, N;
  } sizes{args.q.size(1), args.v.size(2), args.q.size(3), args.v.size(3),
          packed ? args.cu_seqlens.size(0) - 1 : args.q.size(0)};
  FLA_REFUSE_IF(sizes.K != 64 && sizes.K != 128 && sizes.K != 256, "requires K=64, K=128 or K=256, got {}",
                sizes.K);
  FLA_REFUSE_IF(sizes.V % kColumns != 0, "requires a V that is a multiple of 64, got {}", sizes.V);
  FLA_REFUSE_IF(sizes.T > kMostTokens, "requires fewer than 2^31-192 tokens, got {}", sizes.T);
  const std::int64_t columns = sizes.V / kColumns;
  FLA_REFUSE_IF(
      sizes.N > kMostBlocks / std::max<std::int64_t>(sizes.HV * columns, 1),
      "requires fewer than 2^31 blocks of 64 values in all heads of all sequences, got {} in each of {}",
      sizes.HV * columns, sizes.N);
  // A packed sequence's last chunk may be short.
  const std::int64_t chunks =
      packed ? sizes.T / kChunk + sizes.N : sizes.N * ((sizes.T + kChunk - 1) / kChunk);
  FLA_REFUSE_IF(chunks > kMostBlocks / std::max<std::int64_t>(sizes.HV, 1),
                "requires fewer than 2^31 chunks of 64 tokens in all heads, got {} in each of {}", chunks,
                sizes.HV);
  return accept();
}

}  // namespace

Verdict verify(const recurrence::Arguments& args, const CudaDevice* device) {
  FLA_VERIFY(cuda::verify_device(args, device, kDevices));
  FLA_REFUSE_IF(args.checkpoint_every.has_value(), "requires a call without checkpoints");
  FLA_VERIFY(verify_sizes(args));
  FLA_VERIFY(verify_dtypes(args));
  if (args.q.size(1) == 0) return accept();  // no rows are read
  FLA_VERIFY(cuda::verify_rows_of_8("q", args.q));
  FLA_VERIFY(cuda::verify_rows_of_8("k", args.k));
  FLA_VERIFY(cuda::verify_rows_of_8("v", args.v));
  const std::int64_t stride = args.g.stride(1);
  FLA_REFUSE_IF(args.g.size(1) > 1 && (stride >= kFarthestToken || stride <= -kFarthestToken),
                "requires tokens of g less than 2^25 elements apart, got {}", stride);
  return args.out.defined() ? cuda::verify_rows_of_8("out", args.out) : accept();
}

}  // namespace fla::tilelang
