#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "fla/core/cuda_error.h"
#include "fla/core/errors.h"
#include "tools/fla/random_fill.h"

// One warp fills one row; its lanes take every 32nd channel. A channel's value comes from its row and number
// alone, so that a row can be made twice: once for its length, once to be written.

namespace fla::command {
namespace {

using cases::DataKind;

constexpr int kWarp = 32;

struct Random {
  std::uint64_t state;

  __device__ std::uint64_t bits() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  __device__ float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }
  __device__ float normal() {
    const std::uint64_t z = bits();
    const auto sum =
        static_cast<std::int64_t>((z & 0xffffu) + (z >> 16 & 0xffffu) + (z >> 32 & 0xffffu) + (z >> 48));
    return static_cast<float>(sum - 2 * 0xffff) * (1.7320508f / 65536.0f);
  }
};

__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

__device__ float decay(DataKind data, int channel, Random& random) {
  const float u = random.uniform();
  switch (data) {
    case DataKind::random: return -5 * sigmoid(random.normal());
    case DataKind::bound: return -5;
    case DataKind::slow: return -0.01f * u;
    case DataKind::strong: return -125 * u;
    case DataKind::resets: return u < 0.03f ? -100.0f : -0.01f * random.uniform();
    case DataKind::mixed: return channel / 16 % 4 == 0 ? -20 * u : -0.05f * u;
    case DataKind::repeated_keys: break;
  }
  return 0;
}

__device__ float raw_gate(DataKind data, int channel, Random& random) {
  const float u = random.uniform(), z = random.normal(), slow = z - 8;
  switch (data) {
    case DataKind::random: return z;
    case DataKind::bound: return 30;
    case DataKind::slow: return slow;
    case DataKind::strong: return 100 * u;
    case DataKind::resets: return u < 0.03f ? 100.0f : slow;
    case DataKind::mixed: return channel / 16 % 4 == 0 ? 20 * u : slow;
    case DataKind::repeated_keys: break;
  }
  return -60;
}

__device__ float value(const RandomFill& fill, std::int64_t row, int channel) {
  // Rows and channels far apart in the sequence that the seed begins.
  Random random{fill.seed * 0xd1342543de82ef95u + static_cast<std::uint64_t>(row) * 0x2545f4914f6cdd1du +
                static_cast<std::uint64_t>(channel) * 0x9e6c63d0876a9a47u};
  random.state = random.bits();
  switch (fill.filling) {
    case Filling::normal: return fill.scale * random.normal();
    case Filling::sigmoid: return sigmoid(fill.scale * random.normal());
    case Filling::gate: return raw_gate(fill.data, channel, random);
    case Filling::decay: return decay(fill.data, channel, random);
    case Filling::constant: break;
  }
  return fill.scale;
}

__device__ void store(float* at, float x) { *at = x; }
__device__ void store(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }
__device__ void store(__half* at, float x) { *at = __float2half(x); }

template <class Element>
__global__ void fill_rows(Element* data, std::int64_t rows, int channels, std::int64_t heads,
                          RandomFill fill) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / kWarp;
  for (std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp; row < rows;
       row += warps) {
    const std::int64_t source = fill.same_rows ? row % heads : row;
    float factor = 1;
    if (fill.unit_rows) {
      float sum = 0;
      for (int c = lane; c < channels; c += kWarp) {
        const float x = value(fill, source, c);
        sum += x * x;
      }
      for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
      factor = rsqrtf(sum + 1e-6f);
    }
    for (int c = lane; c < channels; c += kWarp)
      store(data + row * channels + c, factor * value(fill, source, c));
  }
}

template <class Element>
void launch(const TensorView& tensor, const RandomFill& fill, Stream stream) {
  constexpr int kThreads = 256;
  constexpr std::int64_t kMostBlocks = 4096;
  const int rank = tensor.rank();
  const std::int64_t channels = tensor.size(rank - 1), elements = tensor.numel();
  if (elements == 0) return;
  const std::int64_t rows = elements / channels, heads = rank > 1 ? tensor.size(rank - 2) : 1;
  const std::int64_t blocks = std::min(kMostBlocks, (rows * kWarp + kThreads - 1) / kThreads);
  fill_rows<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream.handle)>>>(
      tensor.as<Element>(), rows, static_cast<int>(channels), heads, fill);
  check_cuda(cudaGetLastError(), "filling a tensor");
}

}  // namespace

void fill_random(const TensorView& tensor, const RandomFill& fill, Stream stream) {
  switch (tensor.dtype()) {
    case DType::f32: launch<float>(tensor, fill, stream); return;
    case DType::bf16: launch<__nv_bfloat16>(tensor, fill, stream); return;
    case DType::f16: launch<__half>(tensor, fill, stream); return;
    default: throw InvalidArgument("tensor", "expected a float tensor, got " + tensor.describe());
  }
}

}  // namespace fla::command
