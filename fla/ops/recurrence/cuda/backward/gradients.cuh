#pragma once

#include "fla/ops/common/cuda/copies.cuh"
#include "fla/ops/recurrence/cuda/backward/gates.cuh"
#include "fla/ops/recurrence/cuda/backward/held_values.cuh"
#include "fla/ops/recurrence/cuda/backward/workspace.cuh"
#include "fla/ops/recurrence/cuda/chunk_prepare.cuh"

/// The gradients of q, k, g and beta of one chunk and value head, from S, U, Z, dS' and dY.
///
///     products   over values, 64 at a time: E U dY Z in shared memory, the next ones on their way; S and dS'
///                straight from global memory
///                warp w   keys KP / 4 w ..: dQ~ dK~ dKr [C x KP / 4] in registers
///                         16 rows of dM or of dA
///     channels   a thread a channel: its columns of q k dq dk and of factors in shared memory
///
/// As in chunk_prepare.cuh, the decay of a pair (i, j) is split into f_i f_j at a boundary between i and j;
/// here boundaries go down to single tokens. A boundary adds
///
///     dq_i += f_i sum_j dM_ij (f_j k_j)        dk_i likewise with dN = diag(beta) dA
///     dk_j += f_j sum_i dM_ij (f_i q_i) + dN_ij (f_i k_i)
///
/// A log-decay after the boundary gets the terms of all later i, one before it those of all earlier j.
namespace fla::cuda {

template <int KP>
struct GradientMemory {
  static constexpr int C = chunk_size(KP), kSlice = 64, kSliceRow = kSlice + 8, kPairRow = cuda::kPairRow<C>;
  using Values = float[C * kSliceRow];
  using Keys = float[C * kRow<KP>];
  struct OfValues {
    alignas(16) Values E, U, dY, Z;
  };
  struct OfKeys {
    alignas(16) Keys q, k, dq, dk, factor;
  };
  union {
    OfValues values[2];
    OfKeys keys;
  };
  alignas(16) float dM[C * kPairRow], dN[C * kPairRow];
  float state_products[KP], beta[C], dbeta[C], token_sums[2][C];
};

/// The lane's elements of rows 16 m .. and columns `column` .. of a tile, as a left operand.
__device__ inline void load_fragment(const float* tile, int row_stride, int m, int column, Fragment& x) {
  const float* const at = tile + (16 * m + static_cast<int>(threadIdx.x) % 32 / 4) * row_stride + column +
                          static_cast<int>(threadIdx.x) % 4 * 2;
  const float2 upper = *reinterpret_cast<const float2*>(at),
               lower = *reinterpret_cast<const float2*>(at + 8 * row_stride);
  x[0] = upper.x, x[1] = upper.y, x[2] = lower.x, x[3] = lower.y;
}

/// The pairs across the boundaries of `half`, for the thread's channel. On return the factors' tile holds
/// what they add to dg.
template <int half, bool delta, int KP>
__device__ void pair_gradients(GradientMemory<KP>& memory, int channel) {
  using Memory = GradientMemory<KP>;
  const auto at = [&](int t) { return t * kRow<KP> + channel; };
#pragma unroll 1
  for (int base = 0; base < Memory::C; base += 2 * half) {
    float k[half], sums[half];
#pragma unroll
    for (int j = 0; j < half; ++j)
      k[j] = memory.keys.k[at(base + j)] * memory.keys.factor[at(base + j)], sums[j] = 0;
    float later = 0;
#pragma unroll 1
    for (int i = base + 2 * half - 1; i >= base + half; --i) {
      const float f = memory.keys.factor[at(i)], q_i = memory.keys.q[at(i)] * f,
                  k_i = memory.keys.k[at(i)] * f;
      const float *const dM = memory.dM + i * Memory::kPairRow + base, *const dN = memory.dN +
                                                                                   i * Memory::kPairRow +
                                                                                   base;
      float dq = 0, dk = 0;
#pragma unroll
      for (int j = 0; j < half; ++j) {
        dq += dM[j] * k[j];
        sums[j] += dM[j] * q_i;
        if constexpr (delta) {
          dk += dN[j] * k[j];
          sums[j] += dN[j] * k_i;
        }
      }
      memory.keys.dq[at(i)] += f * dq;
      if constexpr (delta) memory.keys.dk[at(i)] += f * dk;
      later += q_i * dq + k_i * dk;
      memory.keys.factor[at(i)] = later;
    }
    float earlier = 0;
#pragma unroll
    for (int j = 0; j < half; ++j) {
      float& f = memory.keys.factor[at(base + j)];
      memory.keys.dk[at(base + j)] += f * sums[j];
      f = earlier;
      earlier += k[j] * sums[j];
    }
  }
}

template <int half, bool delta, int KP, int C>
__device__ void all_pair_gradients(GradientMemory<KP>& memory, const float (&g)[C], int channel,
                                   float (&dg)[C]) {
  write_factors<half, KP>(g, channel, memory.keys.factor);
  pair_gradients<half, delta>(memory, channel);
#pragma unroll
  for (int t = 0; t < C; ++t) dg[t] += memory.keys.factor[t * kRow<KP> + channel];
  if constexpr (half > 1) all_pair_gradients<half / 2, delta>(memory, g, channel, dg);
}

/// From dQ~, dK~ and dKr, in the places of dq, dk and the factors, to the gradients of the thread's channel.
template <bool delta, int KP, int C>
__device__ void channel_gradients(GradientMemory<KP>& memory, const float (&g)[C], int channel,
                                  float (&dg)[C]) {
  const auto at = [&](int t) { return t * kRow<KP> + channel; };
  float sum = 0;
#pragma unroll
  for (int t = 0; t < C; ++t) {
    sum += g[t];
    const float decay = exp2_decay(sum);
    memory.keys.dq[at(t)] *= decay;
    if constexpr (delta) memory.keys.dk[at(t)] *= decay;
  }
  const float whole = memory.state_products[channel] * exp2_decay(sum);
  float later = 0;
  sum = 0;
#pragma unroll
  for (int t = C - 1; t >= 0; --t) {
    const float dKr = memory.keys.factor[at(t)] * exp2_decay(sum), k = memory.keys.k[at(t)];
    sum += g[t];
    later += memory.keys.q[at(t)] * memory.keys.dq[at(t)];
    if constexpr (delta) later += k * memory.keys.dk[at(t)];
    dg[t] = later + whole;
    memory.keys.dk[at(t)] = delta ? memory.keys.dk[at(t)] + dKr : dKr;
    memory.keys.factor[at(t)] = k * dKr;
  }
  float earlier = 0;
#pragma unroll
  for (int t = 0; t < C; ++t) {
    dg[t] += earlier;
    earlier += memory.keys.factor[at(t)];
    const float dM = memory.dM[t * GradientMemory<KP>::kPairRow + t];
    memory.keys.dq[at(t)] += dM * memory.keys.k[at(t)];
    memory.keys.dk[at(t)] += dM * memory.keys.q[at(t)];
  }
  all_pair_gradients<C / 2, delta>(memory, g, channel, dg);
}

template <int KP, Rule rule>
__global__ void __launch_bounds__(kThreads)
    chunk_gradients(const __grid_constant__ BackwardCall back,
                    const __grid_constant__ BackwardWorkspace<KP, rule> workspace) {
  using Memory = GradientMemory<KP>;
  constexpr bool kDelta = rule == Rule::delta;
  constexpr int C = chunk_size(KP), kColumns = KP > kThreads ? KP / kThreads : 1;
  constexpr int kKeys = KP / kWarps, kKeyTiles = kKeys / 8, kTokenTiles = C / 16, kPairTiles = C / 8;
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);

  const RecurrenceCall& call = back.call;
  const ChunkOfBlock<C> chunk(call, call.HV, workspace.first);
  float* const parts = workspace.parts + std::int64_t{2} * blockIdx.x * KP;
  if (chunk.count == 0) {
    for (int i = threadIdx.x; i < 2 * KP; i += kThreads) parts[i] = 0;
    return;
  }
  const int head = chunk.head, VP = workspace.VP;
  auto& operators = workspace.operators[blockIdx.x];
  const Scale<> scale = workspace.scale(call, chunk.n, head);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, p = lane % 4;
  if (const int own = threadIdx.x; own < C) memory.beta[own] = operators.beta[own];

  Fragment dQ[kTokenTiles][kKeyTiles] = {}, dK[kTokenTiles][kKeyTiles] = {}, dKr[kTokenTiles][kKeyTiles] = {};
  Fragment pairs[kPairTiles] = {};  // 16 rows of dM, or of dA in the second half of the warps
  const bool has_pairs = warp < (kDelta ? 2 : 1) * kTokenTiles, of_M = warp < kTokenTiles;
  const int pair_tile = warp % kTokenTiles;
  float state_products[kKeyTiles] = {}, dbeta[C / kWarps] = {};
  const std::int64_t rows_at = workspace.rows(blockIdx.x), state_at = workspace.state(blockIdx.x);

  // Small loops: the instruction cache does not hold the kernel with these unrolled.
  const auto fetch = [&](int v0) {
    auto& to = memory.values[v0 / Memory::kSlice % 2];
#pragma unroll 1
    for (int i = 4 * static_cast<int>(threadIdx.x); i < C * Memory::kSlice; i += 4 * kThreads) {
      const int t = i / Memory::kSlice, v = i % Memory::kSlice, place = t * Memory::kSliceRow + v;
      const std::int64_t at = rows_at + t * VP + v0 + v;
      if (v0 + v >= VP) continue;
      __pipeline_memcpy_async(to.U + place, workspace.U + at, 16);
      if constexpr (kDelta) {
        __pipeline_memcpy_async(to.dY + place, workspace.dY + at, 16);
        __pipeline_memcpy_async(to.Z + place, workspace.Z + at, 16);
      }
    }
    __pipeline_commit();
    constexpr int kTokens = 4 * kThreads / Memory::kSlice;  // at a time
#pragma unroll 1
    for (int t = 0; t < C; t += kTokens) {
      HeldValues<kTokens, Memory::kSlice, kThreads, Memory::kSliceRow> E;
      E.fetch(back.do_, head, v0, workspace.values, {chunk.batch, chunk.first + t, chunk.count - t});
      E.put(back.do_.dtype, scale.down, to.E + t * Memory::kSliceRow);
    }
  };
  for (int v0 = -Memory::kSlice; v0 < VP; v0 += Memory::kSlice) {
    __pipeline_wait_prior(0);
    __syncthreads();  // these values are there, those before are done with
    if (v0 + Memory::kSlice < VP) fetch(v0 + Memory::kSlice);
    if (v0 < 0) continue;
    const int width = min(Memory::kSlice, VP - v0);  // 32 or 64
    const auto& values = memory.values[v0 / Memory::kSlice % 2];
    if constexpr (kDelta) {
#pragma unroll
      for (int r = 0; r < C / kWarps; ++r) {
        const int t = r * kWarps + warp;
        for (int v = lane; v < width; v += 32)
          dbeta[r] += values.dY[t * Memory::kSliceRow + v] * values.Z[t * Memory::kSliceRow + v];
      }
    }
#pragma unroll 2
    for (int v = 0; v < width; v += 8) {
      const std::int64_t at = state_at + (warp * kKeys + g) * VP + v0 + v + 2 * p;
      float2 s[kKeyTiles], ds[kKeyTiles];
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j) {
        s[j] = *reinterpret_cast<const float2*>(workspace.S + at + 8 * j * VP);
        ds[j] = *reinterpret_cast<const float2*>(workspace.dS + at + 8 * j * VP);
      }
      if (has_pairs) {
        Fragment x;
        load_fragment(of_M ? values.E : values.dY, Memory::kSliceRow, pair_tile, v, x);
        multiply_rows(pairs, OperandA(x), values.U, Memory::kSliceRow, v);
      }
#pragma unroll
      for (int m = 0; m < kTokenTiles; ++m) {
        Fragment x;
        load_fragment(values.E, Memory::kSliceRow, m, v, x);
        multiply(dQ[m], OperandA(x), s);
        if constexpr (kDelta) {
          load_fragment(values.dY, Memory::kSliceRow, m, v, x);
#pragma unroll
          for (int i = 0; i < 4; ++i) x[i] *= -memory.beta[16 * m + g + i / 2 * 8];
          multiply(dK[m], OperandA(x), s);
        }
        load_fragment(values.U, Memory::kSliceRow, m, v, x);
        multiply(dKr[m], OperandA(x), ds);
      }
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j) state_products[j] += s[j].x * ds[j].x + s[j].y * ds[j].y;
    }
  }

#pragma unroll
  for (int j = 0; j < kKeyTiles; ++j) {
    const float sum = reduce<4>(state_products[j]);
    if (p == 0) memory.state_products[warp * kKeys + 8 * j + g] = sum;
  }
  if (has_pairs) {
    float with_N[2] = {};  // dA_i N_i
#pragma unroll
    for (int j = 0; j < kPairTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * pair_tile + g + i / 2 * 8, column = 8 * j + 2 * p + i % 2;
        float x = pairs[j][i];
        if (of_M) {
          memory.dM[row * Memory::kPairRow + column] = row >= column ? x : 0;
        } else if constexpr (kDelta) {
          x = row > column ? -x : 0;
          with_N[i / 2] += x * operators.N.at[row][column];
          memory.dN[row * Memory::kPairRow + column] = memory.beta[row] * x;
        }
      }
    }
    if constexpr (kDelta) {
#pragma unroll
      for (int i = 0; i < 2; ++i) with_N[i] = reduce<4>(with_N[i]);
      if (!of_M && p == 0)
        memory.dbeta[16 * pair_tile + g] = with_N[0], memory.dbeta[16 * pair_tile + g + 8] = with_N[1];
    }
  }
  __syncthreads();
  if (kDelta && back.dbeta.data) {
#pragma unroll
    for (int r = 0; r < C / kWarps; ++r) {
      const int t = r * kWarps + warp;
      float gradient = reduce(dbeta[r]);
      if (lane != 0 || t >= chunk.count) continue;
      gradient = scale.up * (gradient + memory.dbeta[t]);
      const auto at = [&](const Rows& rows) {
        return chunk.batch * rows.batch + (chunk.first + t) * rows.token + head * rows.head;
      };
      if (call.beta_sigmoid)
        gradient *= (call.neg_eigval ? 2.0f : 1.0f) *
                    sigmoid_slope(load(call.beta.data, call.beta.dtype, at(call.beta)));
      store(back.dbeta.data, back.dbeta.dtype, at(back.dbeta), gradient);
    }
  }

  TokenLoader<C, KP, Decays::any_log2> tokens(call, head);
  tokens.load(chunk.range(), memory.keys.q, memory.keys.k, memory.keys.factor, memory.beta);
  __syncthreads();
  float log_decays[kColumns][C], dg[kColumns][C];
  const auto with_columns = [&](auto&& body) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (const int channel = c * kThreads + static_cast<int>(threadIdx.x); channel < KP)
        body(log_decays[c], channel, dg[c]);
    }
  };
  with_columns([&](float(&g)[C], int channel, float(&)[C]) {
#pragma unroll
    for (int t = 0; t < C; ++t) g[t] = memory.keys.factor[t * kRow<KP> + channel];
  });
  __syncthreads();
#pragma unroll
  for (int m = 0; m < kTokenTiles; ++m) {
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int at = (16 * m + g + i * 4) * kRow<KP> + warp * kKeys + 8 * j + 2 * p;
        const auto put = [&](float* tile, const Fragment& x) {
          *reinterpret_cast<float2*>(tile + at) = {x[i], x[i + 1]};
        };
        put(memory.keys.dq, dQ[m][j]);
        if constexpr (kDelta) put(memory.keys.dk, dK[m][j]);
        put(memory.keys.factor, dKr[m][j]);
      }
    }
  }
  __syncthreads();
  with_columns([&](float(&g)[C], int channel, float(&dg)[C]) {
    channel_gradients<kDelta>(memory, g, channel, dg);
#pragma unroll
    for (int t = 0; t < C; ++t) {
      operators.Q.at[t][channel] = memory.keys.dq[t * kRow<KP> + channel];
      operators.Kr.at[t][channel] = memory.keys.dk[t * kRow<KP> + channel];
    }
  });

  const auto gate_at = [&](const Rows& rows, int t, int channel) {
    return chunk.batch * rows.batch + (chunk.first + t) * rows.token + head * rows.head +
           channel * rows.channel;
  };
  const auto gate = [&](int t, int channel) {  // raw: what it is where it is given does not matter
    return call.gate == Gate::given ? 0 : load(call.g.data, call.g.dtype, gate_at(call.g, t, channel));
  };
  const float rate = gate_rate(call, head);
  if (call.gate_kind == GateKind::channel) {
    with_columns([&](float(&)[C], int channel, float(&dg)[C]) {
      // Loops, by way of the thread's own columns in shared memory: unrolled, the kernel would have more
      // instructions than the caches hold.
      float *const column = memory.keys.factor + channel, *const raw = memory.keys.dq + channel;
#pragma unroll
      for (int t = 0; t < C; ++t) column[t * kRow<KP>] = dg[t];
      const float bias = gate_bias(call, head, channel);
      const int count = channel < call.K ? chunk.count : 0;
      if (call.gate != Gate::given) {
        constexpr int kAtOnce = 8;
#pragma unroll 1
        for (int t = 0; t < count; t += kAtOnce) {
          std::uint32_t bits[kAtOnce];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i)
            bits[i] = t + i < count
                          ? load_bits(call.g.data, is_16_bit(call.g.dtype), gate_at(call.g, t + i, channel))
                          : 0;
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) raw[(t + i) * kRow<KP>] = to_float(bits[i], call.g.dtype);
        }
      }
      GateSums sums;
#pragma unroll 1
      for (int t = 0; t < count; ++t) {
        const float gradient =
            go_through_gate(call, raw[t * kRow<KP>], scale.up * column[t * kRow<KP>], rate, bias, sums);
        if (back.dg.data) store(back.dg.data, back.dg.dtype, gate_at(back.dg, t, channel), gradient);
      }
      parts[channel] = sums.offset, parts[KP + channel] = sums.rate;
    });
    return;
  }
  // One number a token: the sum over channels.
  if (call.gate_kind == GateKind::none || !call.g.data) return;
  with_columns([&](float(&)[C], int channel, float(&dg)[C]) {
#pragma unroll
    for (int t = 0; t < C; ++t) memory.keys.factor[t * kRow<KP> + channel] = dg[t];
  });
  __syncthreads();
  for (int t = warp; t < C; t += kWarps) {
    float sum = 0;
    for (int channel = lane; channel < KP; channel += 32) sum += memory.keys.factor[t * kRow<KP> + channel];
    sum = reduce(sum);
    if (lane != 0) continue;
    GateSums sums;
    if (t < chunk.count) {
      const float gradient =
          go_through_gate(call, gate(t, 0), scale.up * sum, rate, gate_bias(call, head, 0), sums);
      if (back.dg.data) store(back.dg.data, back.dg.dtype, gate_at(back.dg, t, 0), gradient);
    }
    memory.token_sums[0][t] = sums.offset, memory.token_sums[1][t] = sums.rate;
  }
  __syncthreads();
  if (const int own = threadIdx.x; own < 2) {
    float sum = 0;
    for (int t = 0; t < C; ++t) sum += memory.token_sums[own][t];
    parts[own * KP] = sum;
  }
}

}  // namespace fla::cuda
