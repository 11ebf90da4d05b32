#include "fla/ops/common/cuda/four_channels.cuh"
#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/short_conv/cuda_kernel.h"

/// A thread has four neighbouring channels, of one of two kinds of work:
///
///     a sequence's beginning   reads the first state, writes the outputs that depend on it, the first W - 1,
///                              and the last state; all of a decode step
///     a run of kRun tokens     of a batch, or of all packed sequences: the other outputs, which depend on x
///                              alone
///
/// So only one thread touches a channel of a slot, and it has read all of it before it writes, in place or
/// not. Neighbouring threads have neighbouring channels of the same work.
namespace fla::cuda {
namespace {

constexpr int kThreads = 128, kRun = 16, kAtOnce = 8;

/// Where sequences begin and runs of tokens follow among the units of work.
struct Units {
  std::int64_t quads;  ///< of channels
  std::int64_t runs;   ///< of tokens, of one batch
  std::int64_t all;    ///< beginnings and runs of all batches
};

__host__ __device__ Units units_of(const ShortConvCall& call) {
  const std::int64_t runs = call.T < call.W ? 0 : (call.T + kRun - 1) / kRun;
  return {(call.D + 3) / 4, runs, call.N + runs * (call.cu_seqlens.data ? 1 : call.N)};
}

__device__ float4 multiply_add(float4 a, float4 x, float4 sum) {
  return {fmaf(a.x, x.x, sum.x), fmaf(a.y, x.y, sum.y), fmaf(a.z, x.z, sum.z), fmaf(a.w, x.w, sum.w)};
}

__device__ float silu(float x) { return x / (1 + __expf(-x)); }

/// Four channels of a call.
template <int W>
class Channels {
 public:
  __device__ Channels(const ShortConvCall& call, std::int64_t quad)
      : call_(call), first_(quad * 4), count_(static_cast<int>(min(call.D - first_, std::int64_t{4}))) {
    const common::Parameters &weight = call.weight, &bias = call.bias;
#pragma unroll
    for (int j = 0; j < W; ++j)
      factors_[j] =
          gather4(weight.data, weight.dtype, first_ * weight.head + j * weight.channel, weight.head, count_);
    bias_ = {0, 0, 0, 0};
    if (bias.data) bias_ = gather4(bias.data, bias.dtype, first_ * bias.head, bias.head, count_);
  }

  __device__ uint4 fetch(std::int64_t batch, std::int64_t token) const {
    return fetch4(call_.x, at(call_.x, batch, token), count_);
  }
  __device__ float4 input(uint4 bits) const { return to_float4(bits, call_.x.dtype); }

  /// `past` are the inputs before, the newest last.
  __device__ float4 output(const float4 (&past)[W - 1], float4 input) const {
    float4 sum = bias_;
#pragma unroll
    for (int j = 0; j < W - 1; ++j) sum = multiply_add(factors_[j], past[j], sum);
    sum = multiply_add(factors_[W - 1], input, sum);
    if (!call_.silu) return sum;
    return {silu(sum.x), silu(sum.y), silu(sum.z), silu(sum.w)};
  }

  __device__ void put(std::int64_t batch, std::int64_t token, float4 o) const {
    store4(call_.o, at(call_.o, batch, token), count_, o);
  }

  __device__ void get_state(std::int64_t slot, float4 (&past)[W - 1]) const {
    const common::States& pool = call_.initial_state;
#pragma unroll
    for (int i = 0; i < W - 1; ++i) {
      past[i] = {0, 0, 0, 0};
      if (pool.data) past[i] = gather4(pool.data, pool.dtype, at(pool, slot, i), pool.key, count_);
    }
  }
  __device__ void put_state(std::int64_t slot, const float4 (&past)[W - 1]) const {
    const common::States& pool = call_.final_state;
#pragma unroll
    for (int i = 0; i < W - 1; ++i)
      scatter4(pool.data, pool.dtype, at(pool, slot, i), pool.key, count_, past[i]);
  }

  __device__ static void push(float4 (&past)[W - 1], float4 input) {
#pragma unroll
    for (int i = 0; i < W - 2; ++i) past[i] = past[i + 1];
    past[W - 2] = input;
  }

 private:
  __device__ std::int64_t at(const common::Rows& rows, std::int64_t batch, std::int64_t token) const {
    return batch * rows.batch + token * rows.token + first_ * rows.channel;
  }
  __device__ std::int64_t at(const common::States& pool, std::int64_t slot, int input) const {
    return slot * pool.slot + first_ * pool.key + input * pool.value;
  }

  const ShortConvCall& call_;
  std::int64_t first_;
  int count_;
  float4 factors_[W], bias_;
};

template <int W>
__device__ void begin_sequence(const ShortConvCall& call, const Channels<W>& channels, std::int64_t n) {
  const Sequence tokens = sequence_of(call, n);
  const common::Slots slots = common::slots_of(call, n);
  const std::int64_t own = min(tokens.begin + (W - 1), tokens.end);
  if (slots.read < 0) {
    for (std::int64_t t = tokens.begin; t < own; ++t) channels.put(tokens.batch, t, {0, 0, 0, 0});
    return;
  }
  float4 past[W - 1];
  channels.get_state(slots.read, past);
  for (std::int64_t t = tokens.begin; t < own; ++t) {
    const float4 input = channels.input(channels.fetch(tokens.batch, t));
    channels.put(tokens.batch, t, channels.output(past, input));
    channels.push(past, input);
  }
  if (slots.write < 0) return;
  if (tokens.end > own) {
#pragma unroll
    for (int i = 0; i < W - 1; ++i)
      past[i] = channels.input(channels.fetch(tokens.batch, tokens.end - (W - 1) + i));
  }
  channels.put_state(slots.write, past);
}

/// The sequence that a token belongs to, as a thread goes along them.
class SequenceWalk {
 public:
  __device__ SequenceWalk(const ShortConvCall& call, std::int64_t batch, std::int64_t token)
      : call_(call), n_(batch) {
    if (call.cu_seqlens.data) {  // the last that begins at the token or before it
      std::int64_t last = call.N - 1;
      n_ = 0;
      while (n_ < last) {
        const std::int64_t middle = (n_ + last + 1) / 2;
        if (sequence_begin(call, middle) <= token) {
          n_ = middle;
        } else {
          last = middle - 1;
        }
      }
    }
    look();
  }

  /// Towards the sequence of a later token.
  __device__ void go_to(std::int64_t token) {
    while (token >= tokens_.end && call_.cu_seqlens.data && n_ + 1 < call_.N) {
      ++n_;
      look();
    }
  }
  __device__ const Sequence& tokens() const { return tokens_; }
  __device__ bool skipped() const { return skipped_; }

 private:
  __device__ void look() {
    tokens_ = sequence_of(call_, n_);
    skipped_ = common::slots_of(call_, n_).read < 0;
  }

  const ShortConvCall& call_;
  std::int64_t n_;
  Sequence tokens_;
  bool skipped_;
};

template <int W>
__device__ void run_tokens(const ShortConvCall& call, const Channels<W>& channels, std::int64_t batch,
                           std::int64_t first) {
  // Nothing is read behind the last sequence.
  const std::int64_t last = call.cu_seqlens.data ? sequence_begin(call, call.N) : call.T;
  const std::int64_t end = min(first + kRun, last);
  if (first >= end) return;
  SequenceWalk walk(call, batch, first);
  // Inputs of the sequence before may be among these: no output of this thread depends on them.
  float4 past[W - 1];
#pragma unroll
  for (int i = 0; i < W - 1; ++i) {
    const std::int64_t t = first - (W - 1) + i;
    past[i] = {0, 0, 0, 0};
    if (t >= 0) past[i] = channels.input(channels.fetch(batch, t));
  }
#pragma unroll 1
  for (std::int64_t begin = first; begin < end; begin += kAtOnce) {
    uint4 bits[kAtOnce];  // loads under way before the first store, which the compiler must keep in order
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      bits[i] = {0, 0, 0, 0};
      if (begin + i < end) bits[i] = channels.fetch(batch, begin + i);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t t = begin + i;
      if (t >= end) return;
      walk.go_to(t);
      const float4 input = channels.input(bits[i]);
      const Sequence& tokens = walk.tokens();
      if (t - tokens.begin >= W - 1 && t < tokens.end)
        channels.put(batch, t, walk.skipped() ? float4{0, 0, 0, 0} : channels.output(past, input));
      channels.push(past, input);
    }
  }
}

template <int W>
__global__ void __launch_bounds__(kThreads) short_conv(const __grid_constant__ ShortConvCall call) {
  const Units units = units_of(call);
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t unit = index / units.quads;
  if (unit >= units.all) return;
  const Channels<W> channels(call, index % units.quads);
  if (unit < call.N) return begin_sequence(call, channels, unit);
  const std::int64_t run = unit - call.N;
  run_tokens(call, channels, run / units.runs, run % units.runs * kRun);
}

}  // namespace

std::int64_t short_conv_blocks(const ShortConvCall& call) {
  const Units units = units_of(call);
  return (units.all * units.quads + kThreads - 1) / kThreads;
}

std::size_t short_conv_workspace(const ShortConvCall& call) { return index_workspace(call); }

cudaError_t launch_short_conv(const ShortConvCall& given, void* workspace, cudaStream_t stream) {
  ShortConvCall call = given;
  if (const cudaError_t error = place_host_indices(call, workspace, stream); error != cudaSuccess)
    return error;
  const std::int64_t blocks = short_conv_blocks(call);
  switch (call.W) {
    case 2: return launch_blocks<short_conv<2>, 0>(blocks, kThreads, stream, call);
    case 3: return launch_blocks<short_conv<3>, 0>(blocks, kThreads, stream, call);
    default: return launch_blocks<short_conv<4>, 0>(blocks, kThreads, stream, call);
  }
}

}  // namespace fla::cuda
