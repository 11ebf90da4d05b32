#pragma once

#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/kda/cuda/gates.cuh"
#include "fla/ops/kda/cuda/kda_call.h"

/// Tokens of one value head as f32 tiles in shared memory: q scaled and k as the recurrence wants them, from
/// g the log2-decays or the decays themselves. Channels from K to KP and tokens from `count` on are zeros
/// that nothing was read for, so that memory beyond a sequence may hold anything.
///
///     a warp takes a token at a time, a lane four neighbouring channels (eight with KP = 256):
///
///         global, any dtype           registers                shared, row stride KP + 8
///     q [token, channel 4 l ..]  -->  lane l: 4 floats  -->    q [token][4 l ..]
///                                       sum of squares over the warp
namespace fla::cuda {

inline constexpr int kThreads = 128, kWarps = kThreads / 32;

/// Floats from one row of a tile to the next: 8 modulo 32 keeps reads of 8 tokens x 4 float2 free of
/// conflicts.
template <int KP>
inline constexpr int kRow = KP + 8;

enum class Decays { log2, plain };

template <int tokens, int KP, Decays kind>
class TokenLoader {
 public:
  __device__ TokenLoader(const RecurrenceCall& call, int head)
      : call_(call), head_(head), key_head_(head / call.group), rate_(gate_rate(call, head)) {
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) bias_[s][i] = gate_bias(call, head, channel(s) + i);
    }
  }

  /// All threads of the block call this; the tiles are there after the next barrier.
  __device__ void load(std::int64_t batch, std::int64_t first, int count, float* q, float* k, float* g,
                       float* beta) {
    std::uint32_t beta_bits = 0;
    if (const int t = threadIdx.x; t < count) {
      const Rows& rows = call_.beta;
      const std::int64_t at = batch * rows.batch + (first + t) * rows.token + head_ * rows.head;
      beta_bits = load_bits(rows.data, is_16_bit(rows.dtype), at);
    }
    // Two tokens of a warp at a time: enough loads under way, and code that stays in the instruction cache.
#pragma unroll 1
    for (int t = static_cast<int>(threadIdx.x) / 32; t < tokens; t += kRows * kWarps) {
      uint4 q_bits[kRows][kSlices], k_bits[kRows][kSlices], g_bits[kRows][kSlices];
      fetch(call_.g, head_, batch, first, t, count, g_bits);
      fetch(call_.k, key_head_, batch, first, t, count, k_bits);
      fetch(call_.q, key_head_, batch, first, t, count, q_bits);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int token = t + r * kWarps;
        decays(g_bits[r], token < count, g + token * kRow<KP>);
        normalised(k_bits[r], call_.k.dtype, 1, k + token * kRow<KP>);
        normalised(q_bits[r], call_.q.dtype, call_.scale, q + token * kRow<KP>);
      }
    }
    if (const int t = threadIdx.x; t < tokens) {
      beta[t] = t < count ? beta_of(call_, to_float(beta_bits, call_.beta.dtype)) : 0;
    }
  }

 private:
  static constexpr int kRows = 2;
  static_assert(tokens % (kRows * kWarps) == 0);
  static constexpr int kSlices = KP > 128 ? KP / 128 : 1;

  __device__ static int channel(int s) { return s * 128 + static_cast<int>(threadIdx.x) % 32 * 4; }

  __device__ void fetch(const Rows& rows, int head, std::int64_t batch, std::int64_t first, int t, int count,
                        uint4 (&bits)[kRows][kSlices]) const {
    const bool narrow = is_16_bit(rows.dtype), packed = rows.packed;
    const std::int64_t head_at = batch * rows.batch + head * rows.head;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int token = t + r * kWarps;
      const std::int64_t row = head_at + (first + token) * rows.token;
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        bits[r][s] = {0, 0, 0, 0};
        const int left = token < count ? call_.K - channel(s) : 0;
        if (left <= 0) continue;
        bits[r][s] =
            packed ? load_bits4(rows.data, narrow, row + channel(s))
                   : gather_bits4(rows.data, narrow, row + channel(s) * rows.channel, rows.channel, left);
      }
    }
  }

  __device__ void decays(const uint4 (&bits)[kSlices], bool there, float* row) const {
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      const float4 raw = to_float4(bits[s], call_.g.dtype);
      float x[4] = {raw.x, raw.y, raw.z, raw.w};
      log2_decays(call_, rate_, bias_[s], x);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = there && channel(s) + i < call_.K ? x[i] : 0;
        if constexpr (kind == Decays::plain) x[i] = exp2_decay(x[i]);
      }
      put(row, s, {x[0], x[1], x[2], x[3]}, 1);
    }
  }

  __device__ void normalised(const uint4 (&bits)[kSlices], DType dtype, float factor, float* row) const {
    float4 x[kSlices];
    float sum = 0;
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      x[s] = to_float4(bits[s], dtype);
      sum += x[s].x * x[s].x + x[s].y * x[s].y + x[s].z * x[s].z + x[s].w * x[s].w;
    }
    if (call_.l2norm) factor *= rsqrtf(reduce(sum) + 1e-6f);
#pragma unroll
    for (int s = 0; s < kSlices; ++s) put(row, s, x[s], factor);
  }

  __device__ static void put(float* row, int s, float4 x, float factor) {
    if (channel(s) >= KP) return;
    *reinterpret_cast<float4*>(row + channel(s)) = {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
  }

  const RecurrenceCall& call_;
  int head_, key_head_;
  float rate_, bias_[kSlices][4];
};

}  // namespace fla::cuda
