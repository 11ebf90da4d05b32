#pragma once

#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/recurrence/cuda/gates.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

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

/// Some tokens of one sequence: the first, and how many there are.
struct TokenRange {
  std::int64_t batch, first;
  int count;
};

/// The channels that a lane has of its warp's token.
template <int KP>
struct LaneChannels {
  static constexpr int kSlices = KP > 128 ? KP / 128 : 1;
  using Bits = uint4[kSlices];

  __device__ static int channel(int s) { return s * 128 + static_cast<int>(threadIdx.x) % 32 * 4; }

  /// Of tokens `token`, `token` + kWarps, …
  template <int rows_at_once>
  __device__ static void fetch(const Rows& rows, int head, int K, const TokenRange& range, int token,
                               Bits (&bits)[rows_at_once]) {
    const bool narrow = is_16_bit(rows.dtype), packed = rows.packed;
    const std::int64_t head_at = range.batch * rows.batch + head * rows.head;
#pragma unroll
    for (int r = 0; r < rows_at_once; ++r) {
      const int t = token + r * kWarps;
      const std::int64_t row = head_at + (range.first + t) * rows.token;
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        bits[r][s] = {0, 0, 0, 0};
        const int left = t < range.count ? K - channel(s) : 0;
        if (left <= 0) continue;
        bits[r][s] =
            packed ? load_bits4(rows.data, narrow, row + channel(s))
                   : gather_bits4(rows.data, narrow, row + channel(s) * rows.channel, rows.channel, left);
      }
    }
  }

  /// As floats, times `factor` and, with `l2norm`, over the token's norm.
  __device__ static void put_key(const Bits& bits, DType dtype, float factor, bool l2norm, float* row) {
    float4 x[kSlices];
    float sum = 0;
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      x[s] = to_float4(bits[s], dtype);
      sum += x[s].x * x[s].x + x[s].y * x[s].y + x[s].z * x[s].z + x[s].w * x[s].w;
    }
    if (l2norm) factor *= rsqrtf(reduce(sum) + 1e-6f);
#pragma unroll
    for (int s = 0; s < kSlices; ++s) put(row, s, x[s], factor);
  }

  __device__ static void put(float* row, int s, float4 x, float factor) {
    if (channel(s) >= KP) return;
    *reinterpret_cast<float4*>(row + channel(s)) = {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
  }
};

/// Loads rows into a tile, without a norm. All threads of the block call this.
template <int tokens, int KP>
__device__ void load_rows(const Rows& rows, int head, int K, const TokenRange& range, float* tile) {
  using Lane = LaneChannels<KP>;
  typename Lane::Bits bits[tokens / kWarps];
  const int first = static_cast<int>(threadIdx.x) / 32;
  Lane::fetch(rows, head, K, range, first, bits);
#pragma unroll
  for (int r = 0; r < tokens / kWarps; ++r)
    Lane::put_key(bits[r], rows.dtype, 1, false, tile + (first + r * kWarps) * kRow<KP>);
}

/// Loads q and k into tiles. All threads of the block call this.
template <int tokens, int KP>
__device__ void load_keys(const RecurrenceCall& call, int head, const TokenRange& range, float* q, float* k) {
  using Lane = LaneChannels<KP>;
  constexpr int kRows = 2;
#pragma unroll 1
  for (int t = static_cast<int>(threadIdx.x) / 32; t < tokens; t += kRows * kWarps) {
    typename Lane::Bits q_bits[kRows], k_bits[kRows];
    Lane::fetch(call.k, head / call.group, call.K, range, t, k_bits);
    Lane::fetch(call.q, head / call.group, call.K, range, t, q_bits);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int at = (t + r * kWarps) * kRow<KP>;
      Lane::put_key(k_bits[r], call.k.dtype, 1, call.l2norm, k + at);
      Lane::put_key(q_bits[r], call.q.dtype, call.scale, call.l2norm, q + at);
    }
  }
}

/// beta of token t: the constructor issues the load, value() waits for it.
class HeldBeta {
 public:
  __device__ HeldBeta(const RecurrenceCall& call, int head, const TokenRange& range, int t)
      : there_(t < range.count && call.beta.data) {
    const Rows& rows = call.beta;
    if (there_)
      bits_ = load_bits(rows.data, is_16_bit(rows.dtype),
                        range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head);
  }
  /// 0 where there is no such token.
  __device__ float value(const RecurrenceCall& call) const { return there_ ? beta_of(call, raw(call)) : 0; }
  __device__ float raw(const RecurrenceCall& call) const { return to_float(bits_, call.beta.dtype); }

 private:
  bool there_;
  std::uint32_t bits_ = 0;
};

/// What a loader makes of gates. log2 is for calls that have g; any_log2 and plain also for those that have
/// none.
enum class Decays { log2, any_log2, plain };

/// Everything that a token has but v, whatever its gate is; a gate that has one number a token is the same in
/// every channel.
template <int tokens, int KP, Decays kind>
class TokenLoader {
 public:
  __device__ TokenLoader(const RecurrenceCall& call, int head)
      : call_(call), head_(head), key_head_(head / call.group), rate_(gate_rate(call, head)) {
#pragma unroll
    for (int s = 0; s < Lane::kSlices; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) bias_[s][i] = gate_bias(call, head, Lane::channel(s) + i);
    }
  }

  /// All threads of the block call this; the tiles are there after the next barrier.
  __device__ void load(const TokenRange& range, float* q, float* k, float* g, float* beta) {
    const int own = threadIdx.x;
    const HeldBeta own_beta(call_, head_, range, own);
    // Two tokens of a warp at a time: enough loads under way, and code that stays in the instruction cache.
#pragma unroll 1
    for (int t = own / 32; t < tokens; t += kRows * kWarps) {
      typename Lane::Bits q_bits[kRows], k_bits[kRows], g_bits[kRows];
      if (has_gates()) Lane::fetch(call_.g, head_, call_.K, range, t, g_bits);
      Lane::fetch(call_.k, key_head_, call_.K, range, t, k_bits);
      Lane::fetch(call_.q, key_head_, call_.K, range, t, q_bits);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int token = t + r * kWarps;
        put_decays(g_bits[r], token < range.count, g + token * kRow<KP>);
        Lane::put_key(k_bits[r], call_.k.dtype, 1, call_.l2norm, k + token * kRow<KP>);
        Lane::put_key(q_bits[r], call_.q.dtype, call_.scale, call_.l2norm, q + token * kRow<KP>);
      }
    }
    if (own < tokens) beta[own] = own_beta.value(call_);
  }

 private:
  using Lane = LaneChannels<KP>;
  static constexpr int kRows = 2;
  static_assert(tokens % (kRows * kWarps) == 0);

  __device__ bool has_gates() const { return kind == Decays::log2 || call_.g.data; }

  __device__ void put_decays(const typename Lane::Bits& bits, bool there, float* row) const {
#pragma unroll
    for (int s = 0; s < Lane::kSlices; ++s) {
      float x[4];
      if (has_gates()) {
        const float4 raw = to_float4(bits[s], call_.g.dtype);
        x[0] = raw.x, x[1] = raw.y, x[2] = raw.z, x[3] = raw.w;
        log2_decays(call_, rate_, bias_[s], x);
      } else {
        x[0] = x[1] = x[2] = x[3] = head_log2_decay(call_, head_);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = there && Lane::channel(s) + i < call_.K ? x[i] : 0;
        if constexpr (kind == Decays::plain) x[i] = exp2_decay(x[i]);
      }
      Lane::put(row, s, {x[0], x[1], x[2], x[3]}, 1);
    }
  }

  const RecurrenceCall& call_;
  int head_, key_head_;
  float rate_, bias_[Lane::kSlices][4];
};

}  // namespace fla::cuda
