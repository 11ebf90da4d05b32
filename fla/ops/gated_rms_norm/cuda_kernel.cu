#include "fla/ops/common/cuda/four_channels.cuh"
#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/gated_rms_norm/cuda_kernel.h"

/// A warp has a row, a lane four neighbouring channels of every 128. What a lane has of the first kHeld * 128
/// channels stays in registers from the sum to the result; further ones are read again, from the cache. A
/// lane reads what it overwrites before it does, so that o may be x.
namespace fla::cuda {
namespace {

constexpr int kWarps = 4, kHeld = 4, kStep = 128;

class GatedRow {
 public:
  __device__ GatedRow(const GatedRmsNormCall& call, std::int64_t row)
      : call_(call),
        x_(call.row_at(call.x, row)),
        g_(call.row_at(call.g, row)),
        o_(call.row_at(call.o, row)) {}

  __device__ float4 x(std::int64_t channel) const { return get(call_.x, x_, channel); }
  __device__ float4 g(std::int64_t channel) const { return get(call_.g, g_, channel); }

  __device__ void clear(std::int64_t channel) const { put(channel, {0, 0, 0, 0}); }
  __device__ void finish(std::int64_t channel, float4 x, float4 g, float factor) const {
    const common::Parameters& weight = call_.weight;
    float4 scale{1, 1, 1, 1};
    if (weight.data)
      scale = gather4(weight.data, weight.dtype, channel * weight.head, weight.head, left(channel));
    put(channel, {x.x * factor * scale.x * gate(g.x), x.y * factor * scale.y * gate(g.y),
                  x.z * factor * scale.z * gate(g.z), x.w * factor * scale.w * gate(g.w)});
  }

 private:
  /// Of four channels, how many there are.
  __device__ int left(std::int64_t channel) const {
    return static_cast<int>(min(call_.V - channel, std::int64_t{4}));
  }
  __device__ float4 get(const common::Rows& rows, std::int64_t row, std::int64_t channel) const {
    return to_float4(fetch4(rows, row + channel * rows.channel, left(channel)), rows.dtype);
  }
  __device__ void put(std::int64_t channel, float4 o) const {
    store4(call_.o, o_ + channel * call_.o.channel, left(channel), o);
  }
  __device__ float gate(float g) const {
    const float share = 1 / (1 + __expf(-g));
    return call_.silu ? g * share : share;
  }

  const GatedRmsNormCall& call_;
  std::int64_t x_, g_, o_;
};

__device__ float sum_of_squares(float4 x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }

__global__ void __launch_bounds__(kWarps * 32) gated_rms_norm(const __grid_constant__ GatedRmsNormCall call) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= call.rows()) return;  // all of a warp
  const GatedRow own(call, row);
  const std::int64_t first = threadIdx.x % 32 * 4;
  if (call.skips(row)) {
    for (std::int64_t channel = first; channel < call.V; channel += kStep) own.clear(channel);
    return;
  }

  float4 x[kHeld], g[kHeld];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    x[i] = g[i] = {0, 0, 0, 0};
    if (const std::int64_t channel = first + i * kStep; channel < call.V) {
      x[i] = own.x(channel);
      g[i] = own.g(channel);
    }
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) sum += sum_of_squares(x[i]);
  for (std::int64_t channel = first + kHeld * kStep; channel < call.V; channel += kStep)
    sum += sum_of_squares(own.x(channel));
  const float factor = rsqrtf(reduce(sum) / static_cast<float>(call.V) + call.eps);

#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (const std::int64_t channel = first + i * kStep; channel < call.V)
      own.finish(channel, x[i], g[i], factor);
  }
  for (std::int64_t channel = first + kHeld * kStep; channel < call.V; channel += kStep)
    own.finish(channel, own.x(channel), own.g(channel), factor);
}

}  // namespace

std::int64_t gated_rms_norm_blocks(const GatedRmsNormCall& call) {
  return (call.rows() + kWarps - 1) / kWarps;
}

cudaError_t launch_gated_rms_norm(const GatedRmsNormCall& call, cudaStream_t stream) {
  return launch_blocks<gated_rms_norm, 0>(gated_rms_norm_blocks(call), kWarps * 32, stream, call);
}

}  // namespace fla::cuda
