#pragma once

#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/recurrence/cuda/backward/workspace.cuh"
#include "fla/ops/recurrence/cuda/pairs.cuh"

/// What comes before and after the kernels that have the products: the scales, rows of key heads, sums over
/// tokens.
namespace fla::cuda {

/// The largest upstream gradients of heads. A block has a chunk and head of E, or behind those a sequence and
/// head of dht.
template <int KP, Rule rule>
__global__ void __launch_bounds__(kThreads)
    find_largest(const __grid_constant__ BackwardCall back,
                 const __grid_constant__ BackwardWorkspace<KP, rule> workspace, std::int64_t places) {
  const RecurrenceCall& call = back.call;
  if (const std::int64_t item = blockIdx.x - places * call.HV; item >= 0) {
    const int head = static_cast<int>(item % call.HV);
    return add_largest(largest_of_state<kThreads>(call, back.dht, item / call.HV, head),
                       workspace.largest + item);
  }
  const ChunkOfBlock<BackwardWorkspace<KP, rule>::C> chunk(call, call.HV);
  const Rows& rows = back.do_;
  float most = 0;
#pragma unroll 4
  for (int t = threadIdx.x / 32; t < chunk.count; t += kWarps) {
    const std::int64_t at =
        chunk.batch * rows.batch + (chunk.first + t) * rows.token + chunk.head * rows.head;
    for (int v = static_cast<int>(threadIdx.x) % 32; v < workspace.values; v += 32)
      see(most, load(rows.data, rows.dtype, at + v * rows.channel));
  }
  if (chunk.count > 0) add_largest(most, workspace.largest + chunk.n * call.HV + chunk.head);
}

/// One gradient of a key head's rows: where value heads' rows are in the workspace, and where it goes.
struct RowGradient {
  const float* from = nullptr;  ///< of place 0, value head 0
  std::int64_t head = 0;        ///< floats from one value head's rows to the next one's
  std::int64_t share = 0;       ///< and from one share's
  Rows to{};
  Rows normed{};  ///< what a norm was taken of, where one was
  float factor = 1;
};

/// Adds up the rows of a chunk's value heads that belong to one row of `to`, all shares of them, and goes
/// through the norm. A block has a chunk and a head of `to`, which `group` value heads share; a warp a token
/// at a time.
template <int KP, Rule rule>
__global__ void __launch_bounds__(kThreads)
    store_rows(const __grid_constant__ BackwardCall back,
               const __grid_constant__ BackwardWorkspace<KP, rule> workspace,
               const __grid_constant__ RowGradient gradient, int group) {
  constexpr int C = BackwardWorkspace<KP, rule>::C, kEach = KP / 32;
  const RecurrenceCall& call = back.call;
  const ChunkOfBlock<C> chunk(call, call.HV / group, workspace.first);
  const int lane = threadIdx.x % 32;
  for (int t = static_cast<int>(threadIdx.x) / 32; t < chunk.count; t += kWarps) {
    float x[kEach] = {};
    for (int i = 0; i < group; ++i) {
      const int head = chunk.head * group + i;
      const float up = workspace.scale(call, chunk.n, head).up * gradient.factor;
      const float* from =
          gradient.from + workspace.at(call, chunk.place, head) * gradient.head + t * KP + lane;
      for (int share = 0; share < workspace.shares; ++share, from += gradient.share) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) x[j] += up * from[32 * j];
      }
    }
    const auto at = [&](const Rows& rows, int j) {
      return chunk.batch * rows.batch + (chunk.first + t) * rows.token + chunk.head * rows.head +
             (lane + 32 * j) * rows.channel;
    };
    if (gradient.normed.data) {  // of y = r x, r = rsqrt(sum(x^2) + 1e-6): dx = r (dy - y (y^T dy))
      float y[kEach], squares = 0, along = 0;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        y[j] = lane + 32 * j < call.K
                   ? load(gradient.normed.data, gradient.normed.dtype, at(gradient.normed, j))
                   : 0;
        squares += y[j] * y[j];
      }
      const float r = rsqrtf(reduce(squares) + 1e-6f);
#pragma unroll
      for (int j = 0; j < kEach; ++j) y[j] *= r, along += y[j] * x[j];
      along = reduce(along);
#pragma unroll
      for (int j = 0; j < kEach; ++j) x[j] = r * (x[j] - y[j] * along);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (lane + 32 * j < call.K) store(gradient.to.data, gradient.to.dtype, at(gradient.to, j), x[j]);
    }
  }
}

/// Of how many channels a head's gate has sums over tokens.
__host__ __device__ inline int summed_channels(const RecurrenceCall& call) {
  return call.gate_kind == GateKind::channel ? call.K : 1;
}

inline constexpr int kSumThreads = 1024;  ///< of add_parts

/// Adds the parts of `places`, the first channels of [2][KP] of each head, `stride` floats from one head's to
/// the next one's, to the sums over tokens, and after the last ones stores what they are the gradients of. A
/// block has a head, a thread one of its numbers and a share of the places. `sums` keeps the sums from one
/// launch to the next; a launch that is both `first` and `last` does not need it.
template <int KP>
__global__ void __launch_bounds__(kSumThreads)
    add_parts(const __grid_constant__ BackwardCall back, const float* parts, std::int64_t stride,
              double* sums, std::int64_t places, bool first, bool last) {
  __shared__ double shares[kSumThreads];
  const int channels = summed_channels(back.call) == 1 ? 1 : KP, numbers = 2 * channels,
            all = kSumThreads / numbers;
  const int head = blockIdx.x, number = static_cast<int>(threadIdx.x) % numbers, channel = number % channels;
  const int share = static_cast<int>(threadIdx.x) / numbers;
  const bool is_summed = channel < summed_channels(back.call);
  const float* const own = parts + head * stride + number / channels * KP + channel;
  double x = 0;
  const std::int64_t end = is_summed ? places : 0;
#pragma unroll 8
  for (std::int64_t place = share; place < end; place += all)
    x += static_cast<double>(own[place * back.call.HV * stride]);
  shares[threadIdx.x] = x;
  const auto add_halves = [&](int from, int to) {  // of as many threads, until `to` are left
    for (int half = from / 2; half >= to; half /= 2) {
      __syncthreads();
      if (static_cast<int>(threadIdx.x) < half) shares[threadIdx.x] += shares[threadIdx.x + half];
    }
  };
  add_halves(all * numbers, numbers);
  if (share == 0) {
    const std::int64_t at = std::int64_t{head} * (2 * KP) + number;
    x = shares[number];
    if (is_summed && !first) x += sums[at];
    if (is_summed && !last) sums[at] = x;
    shares[number] = x;
  }
  if (!last) return;
  const auto put = [&](const Parameters& to, double of_all) {
    if (to.data) store(to.data, to.dtype, head * to.head + channel * to.channel, static_cast<float>(of_all));
  };
  if (static_cast<int>(threadIdx.x) < channels && is_summed) put(back.ddt_bias, x);
  __syncthreads();
  double& rates = shares[channels];
  for (int half = channels / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half)
      shares[channels + threadIdx.x] += shares[channels + half + threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  put(back.dg_gamma, x);
  put(back.dA_log, rates);
}

}  // namespace fla::cuda
