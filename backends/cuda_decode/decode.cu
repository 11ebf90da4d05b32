#include <algorithm>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/early_launch.cuh"
#include "backends/cuda_decode/limits.h"
#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/common/cuda/instructions.cuh"
#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/gates.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/with_rule.h"

/// One token for every sequence, or up to kMostTokens: the state is read once and written once, and
/// everything else is hidden under that.
///
///     S <- diag(d) S      u = beta (v - k^T S)      S <- S + k u^T      o = q^T S = q^T (d S) + (q^T k) u
///
/// The last form needs no sum over the new state, so both sums are taken in one pass over the old one. With
/// Rule::additive u is v. With Rule::low_rank the second sum is w = a^T S over the old state, and
/// S <- diag(d) S + k v^T + b w^T.
///
///     block    16 KiB of one head's state: all keys of some values; 128 threads, all loads under way at once
///     thread   8 loads of 16 bytes, kept in registers until they are stored again
///
///     [V, K]  a row of keys over neighbouring lanes       [K, V]  a row of values over neighbouring lanes
///             (f32, K = 128: 32 lanes x 4 keys)                   (f32, K = 128: 8 lanes x 4 values)
///
///     warp 0   v0    | l0 k0..3 | l1 k4..7 | .. | l31 |   warp 0   k0   | l0 | l1 | .. | l7  |
///              ..      load i is row i of the warp        ..       k8   | l8 | l9 | .. | l15 |   load 0
///     warp 1   v8    |                                    warp 1   k32  |
///
///     sums over keys: across the lanes of a row           across rows of lanes, then across warps
///
/// Shared memory has the token's vectors, made by the block while the state is on its way, a thread a
/// channel. They are left without their norms, which saves a barrier; whoever reads them multiplies them by
/// those, before they meet the state: a sum of f32 states with vectors of any norm could overflow.
///
/// Several tokens are the same step after step, on a state that stays in registers, as floats whatever its
/// type: their outputs have the bits that calls with a token each give, but for 16-bit states, which are
/// rounded only where they are stored. All vectors are made before the first step, those of a token by one
/// warp and with norms and scale in them. The state after a token goes to its checkpoint where the call has
/// one.
namespace fla::cuda {
namespace {

using cuda_decode::kMostTokens;

constexpr int kThreads = 128, kWarps = kThreads / 32;

/// 16 bytes of state as floats, and back.
template <class State>
inline constexpr int kVector = 16 / sizeof(State);

template <class State>
__device__ float element(const uint4& bits, int i) {
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  if constexpr (sizeof(State) == 4) return __uint_as_float(words[i]);
  return __uint_as_float(i % 2 ? words[i / 2] & 0xffff0000u : words[i / 2] << 16);
}

template <class State>
__device__ uint4 pack(const float (&x)[kVector<State>]) {
  if constexpr (sizeof(State) == 4) {
    return {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])};
  } else {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
      words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
    return {words[0], words[1], words[2], words[3]};
  }
}

/// As many elements of state as fill 16 bytes of what a thread keeps, which may be wider.
template <class State, class Held>
__device__ uint4 load_held(const State* from) {
  if constexpr (sizeof(State) == sizeof(Held)) return *reinterpret_cast<const uint4*>(from);
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  return {bits.x << 16, bits.x & 0xffff0000u, bits.y << 16, bits.y & 0xffff0000u};
}

template <class State, int count>
__device__ void store_held(State* to, const float (&x)[count]) {
  if constexpr (count == kVector<State>) {
    *reinterpret_cast<uint4*>(to) = pack<State>(x);
  } else {
    const float all[kVector<State>] = {x[0], x[1], x[2], x[3]};
    const uint4 bits = pack<State>(all);
    *reinterpret_cast<uint2*>(to) = {bits.x, bits.y};
  }
}

/// 16-bit states are unpacked a second time for the update rather than kept as floats, which would take twice
/// the registers; this keeps the compiler from knowing that both are the same.
template <class State>
__device__ void forget(uint4& bits) {
  if constexpr (sizeof(State) == 2) asm("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
}

/// `count` floats of shared memory from a place that is aligned for it, times `factor`.
template <int count>
__device__ void read(const float* from, float factor, float (&x)[count]) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float4 y = *reinterpret_cast<const float4*>(from + i);
      x[i] = y.x * factor, x[i + 1] = y.y * factor, x[i + 2] = y.z * factor, x[i + 3] = y.w * factor;
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = from[i] * factor;
  }
}

template <class State, int K>
inline constexpr int kLoads = K * sizeof(State) >= 256 ? 8 : 4;

/// Values of a block's tile.
template <class State, int K>
inline constexpr int kTile = kLoads<State, K>* kThreads* kVector<State> / K;

constexpr int kSums = 4;
template <Rule rule>
inline constexpr int kUsedSums = rule == Rule::low_rank ? 4 : 3;

template <int K, int tile>
struct TokenMemory {
  // q and k without norm or scale; qd times the decay. x: the vector of the second sum, k times the decay or
  // a.
  alignas(16) float qd[K], x[K], k[K], d[K];
  alignas(16) float v[tile];
  // q^T q, k^T k, q^T k, with Rule::low_rank q^T b; a warp's share
  float sums[kSums][kWarps];
};
template <int K, int tile>
struct PairMemory : TokenMemory<K, tile> {
  alignas(16) float b[K];
};

/// The numbers that are the same for the whole head.
struct Factors {
  float q, k, qk, qb, beta;  ///< q = scale / |q|, k = 1 / |k|, qk = q^T k with both, qb = q^T b with q's
  float divisor;             ///< of the output, with normalize
};

/// Of one of several tokens.
template <class Memory>
struct StepMemory : Memory {
  Factors factors;
  std::int64_t kept;  ///< the slot of the state after it; negative: it is not kept
};

/// A vector a head and token: strides in 32 bits, for addresses take longer than anything else here.
struct Source {
  const void* data;
  unsigned batch, token, head, channel;
  DType dtype;

  __device__ std::int64_t at(unsigned n, unsigned t, unsigned h, unsigned i) const {
    return static_cast<std::int64_t>(
        static_cast<std::uint64_t>(n) * batch + static_cast<std::uint64_t>(t) * token +
        static_cast<std::uint64_t>(h) * head + static_cast<std::uint64_t>(i) * channel);
  }
};

/// What is left of a call for one token.
struct DecodeCall {
  int group, V;
  Source q, k, v, g, beta, a, b, o, A_log, dt_bias;
  float scale, lower_bound, head_slope;
  Gate gate;
  GateKind gate_kind;
  HeadGate head_gate;
  bool has_g;  ///< otherwise g is any number: loading it costs less than a branch
  bool normalize;
  bool l2norm, beta_sigmoid, neg_eigval;
  States initial_state, final_state;
  Indices read_slots, write_slots;
};

/// And for several.
struct StepsCall : DecodeCall {
  int tokens;
  Checkpoints checkpoints;
  AcceptedTokens accepted;
};

/// Elements of the dtype that nearly all calls have, or of any.
enum class Inputs { bf16, any };

template <Inputs inputs>
__device__ std::uint32_t fetch(const Source& source, std::int64_t at) {
  return load_bits(source.data, inputs == Inputs::bf16 || is_16_bit(source.dtype), at);
}

template <Inputs inputs>
__device__ float value_of(std::uint32_t bits, const Source& source) {
  return to_float(bits, inputs == Inputs::bf16 ? DType::bf16 : source.dtype);
}

/// Of a token whose vectors have these sums: q^T q, k^T k, q^T k, q^T b.
template <Rule rule>
__device__ Factors factors_of(const DecodeCall& call, const float (&sums)[kSums], float raw_beta) {
  Factors factors{.q = call.scale, .k = 1, .qk = 0, .qb = 0, .beta = 0, .divisor = 1};
  if constexpr (rule == Rule::delta) factors.beta = beta_of(call, raw_beta);
  if (call.l2norm) factors.q *= rsqrtf(sums[0] + 1e-6f), factors.k = rsqrtf(sums[1] + 1e-6f);
  factors.qk = sums[2] * factors.q * factors.k, factors.qb = sums[3] * factors.q;
  if (rule == Rule::additive && call.normalize) factors.divisor = factors.qk + 1e-10f;
  return factors;
}

/// Sends for this thread's channels and values of a token; put() waits for them and puts them into shared
/// memory. A token that is alone is made by the whole block, a thread a channel; one of several by a warp.
template <Inputs inputs, Rule rule, int K, int tile, bool several>
class TokenVectors {
 public:
  __device__ void fetch(const DecodeCall& call, unsigned n, unsigned t, unsigned head) {
    const unsigned key_head = call.group == 1 ? head : head / static_cast<unsigned>(call.group);
    for_each_channel([&](int c, unsigned i) {
      q_[c] = cuda::fetch<inputs>(call.q, call.q.at(n, t, key_head, i));
      k_[c] = cuda::fetch<inputs>(call.k, call.k.at(n, t, key_head, i));
      std::uint32_t g = cuda::fetch<inputs>(call.g, call.g.at(n, t, head, i));
      cuda::forget(g);  // otherwise the compiler loads it only where has_g is true
      g_[c] = g;
      if constexpr (rule == Rule::low_rank) {
        a_[c] = cuda::fetch<inputs>(call.a, call.a.at(n, t, key_head, i));
        b_[c] = cuda::fetch<inputs>(call.b, call.b.at(n, t, key_head, i));
      }
      if (call.gate != Gate::given) {
        if (call.dt_bias.data)
          bias_[c] = cuda::fetch<Inputs::any>(call.dt_bias, call.dt_bias.at(0, 0, head, i));
        if (call.A_log.data) rate_ = cuda::fetch<Inputs::any>(call.A_log, call.A_log.at(0, 0, head, 0));
      }
    });
    if constexpr (rule == Rule::delta) beta_ = cuda::fetch<inputs>(call.beta, call.beta.at(n, t, head, 0));
  }

  /// After the state is sent for: nothing waits for the values before it is there.
  __device__ void fetch_values(const DecodeCall& call, unsigned n, unsigned t, unsigned head,
                               unsigned first_value) {
    for_each_value([&](int j, unsigned i) {
      v_[j] = cuda::fetch<inputs>(call.v, call.v.at(n, t, head, first_value + i));
    });
  }

  template <class Memory>
  __device__ void put(const DecodeCall& call, int head, Memory& memory) const {
    float q[kChannels] = {}, k[kChannels] = {}, b[kChannels] = {}, d[kChannels];
    for_each_channel([&](int c, unsigned) {
      q[c] = value_of<inputs>(q_[c], call.q), k[c] = value_of<inputs>(k_[c], call.k);
      if constexpr (rule == Rule::low_rank) b[c] = value_of<inputs>(b_[c], call.b);
      float g[1] = {value_of<inputs>(g_[c], call.g)}, bias[1] = {0}, rate = 1;
      if (call.gate != Gate::given) {
        if (call.dt_bias.data) bias[0] = value_of<Inputs::any>(bias_[c], call.dt_bias);
        if (call.A_log.data) rate = __expf(value_of<Inputs::any>(rate_, call.A_log));
      }
      if (call.has_g)
        log2_decays(call, rate, bias, g);
      else
        g[0] = rule == Rule::additive ? head_log2_decay(call, head) : 0;
      d[c] = exp2_decay(g[0]);
    });
    const auto put_vectors = [&](float q_factor, float k_factor) {
      for_each_channel([&](int c, unsigned i) {
        memory.qd[i] = q[c] * d[c] * q_factor, memory.k[i] = k[c] * k_factor, memory.d[i] = d[c];
        if constexpr (rule == Rule::low_rank) {
          memory.x[i] = value_of<inputs>(a_[c], call.a), memory.b[i] = b[c];
        } else {
          memory.x[i] = k[c] * d[c] * k_factor;
        }
      });
    };
    if constexpr (!several) put_vectors(1, 1);
    for_each_value([&](int j, unsigned i) { memory.v[i] = value_of<inputs>(v_[j], call.v); });
    float sums[kSums] = {};
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {  // in the order of a block's warps
      sums[0] += reduce(q[c] * q[c]), sums[1] += reduce(k[c] * k[c]), sums[2] += reduce(q[c] * k[c]);
      if constexpr (rule == Rule::low_rank) sums[3] += reduce(q[c] * b[c]);
    }
    if constexpr (several) {
      const Factors factors = factors_of<rule>(call, sums, raw_beta(call));
      put_vectors(factors.q, factors.k);
      if (threadIdx.x % 32 == 0) memory.factors = factors;
    } else if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int s = 0; s < kUsedSums<rule>; ++s) memory.sums[s][threadIdx.x / 32] = sums[s];
    }
  }

  /// Of a token that is alone, once the whole block has put it.
  template <class Memory>
  __device__ Factors factors(const DecodeCall& call, const Memory& memory) const {
    float all[kSums] = {};
#pragma unroll
    for (int s = 0; s < kUsedSums<rule>; ++s) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) all[s] += memory.sums[s][w];
    }
    return factors_of<rule>(call, all, raw_beta(call));
  }

  /// Of several tokens of a call that normalizes, once all have been put: what the keys before this one add
  /// to its divisor.
  template <class Memory>
  __device__ void add_keys_before(const DecodeCall& call, Memory* memory, int t) const {
    float sum = 0;
    for_each_channel([&](int c, unsigned i) {
      float keys = 0;
      for (int s = 0; s < t; ++s) keys += memory[s].k[i];
      sum += value_of<inputs>(q_[c], call.q) * keys;
    });
    sum = reduce(sum) * call.scale;
    if (threadIdx.x % 32 == 0) memory[t].factors.divisor += sum;
  }

 private:
  static constexpr int kChannels = several ? K / 32 : 1, kValues = several ? tile / 32 : 1;

  template <int places, int count, class Body>
  static __device__ void for_each_place(Body&& body) {
#pragma unroll
    for (int c = 0; c < places; ++c) {
      const unsigned i = several ? c * 32 + threadIdx.x % 32 : threadIdx.x;
      if (several || i < count) body(c, i);
    }
  }
  template <class Body>
  static __device__ void for_each_channel(Body&& body) {
    for_each_place<kChannels, K>(body);
  }
  template <class Body>
  static __device__ void for_each_value(Body&& body) {
    for_each_place<kValues, tile>(body);
  }

  __device__ float raw_beta(const DecodeCall& call) const { return value_of<inputs>(beta_, call.beta); }

  std::uint32_t q_[kChannels], k_[kChannels], g_[kChannels], a_[kChannels], b_[kChannels], bias_[kChannels],
      v_[kValues], beta_, rate_;
};

/// Blocks that a multiprocessor holds at once: as many as the registers that wait for loads allow.
template <class State, bool v_first, bool several>
inline constexpr int kResident = several                          ? 6
                                 : sizeof(State) == 4 || !v_first ? 7
                                                                  : 6;

/// The token's vectors are needed first and asked for first, except with bf16 states in [K, V]: there the
/// instructions that this takes would keep the state's loads waiting, at N = 32 and H = 32 for 5 % of the
/// time.
template <class State, bool v_first>
inline constexpr bool kStateFirst = sizeof(State) == 2 && !v_first;

template <Inputs inputs, class State, int K, bool v_first, Rule rule, bool several>
__global__ void __launch_bounds__(kThreads, kResident<State, v_first, several>)
    decode(const __grid_constant__ std::conditional_t<several, StepsCall, DecodeCall> call,
           std::int64_t first_sequence) {
  using Held = std::conditional_t<several, float, State>;
  constexpr int kVec = kVector<Held>, loads = kLoads<Held, K>, tile = kTile<Held, K>;
  constexpr int kLanes = (v_first ? K : tile) / kVec, kRows = 32 / kLanes;  // of a warp's load
  using Memory = std::conditional_t<rule == Rule::low_rank, PairMemory<K, tile>, TokenMemory<K, tile>>;
  __shared__ std::conditional_t<several, StepMemory<Memory>, Memory> memory[several ? kMostTokens : 1];

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_value = blockIdx.x * tile, head = blockIdx.y;
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  int tokens = 1;
  if constexpr (several) tokens = call.tokens;
  wait_for_kernel_before();
  Slots slots;
  if constexpr (several)
    slots = slots_of(call, call.accepted, n);
  else
    slots = slots_of(call, n);
  const auto put_o = [&](int t, int value, float x) {
    const std::int64_t at = call.o.at(n, t, head, first_value + value);
    void* const o = const_cast<void*>(call.o.data);
    store(o, inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype, at, x);
  };
  if (slots.read < 0) {
    for (int t = 0; t < tokens; ++t) {
      if (threadIdx.x < tile) put_o(t, threadIdx.x, 0);
    }
    return;
  }

  // Row i of this lane: a value of the tile, or a key. Its elements begin at `column`.
  const int column = lane % kLanes * kVec;
  const auto row = [&](int i) {
    return v_first ? (warp * loads + i) * kRows + lane / kLanes : (warp * kRows + lane / kLanes) * loads + i;
  };
  const auto first_row = [&](const States& states, std::int64_t slot) {
    const int at = v_first ? (first_value + row(0)) * K + column : row(0) * call.V + first_value + column;
    return static_cast<State*>(states.data) + states.offset(slot, head) + at;
  };
  const int row_step = v_first ? kRows * K : call.V;  // from load i to i + 1
  uint4 bits[loads] = {};
  const auto fetch_state = [&] {
    if (!call.initial_state.data) return;
    const State* const from = first_row(call.initial_state, slots.read);
#pragma unroll
    for (int i = 0; i < loads; ++i) bits[i] = load_held<State, Held>(from + i * row_step);
  };
  constexpr int kEach = several ? kMostTokens / kWarps : 1;  // tokens that a thread has a part in
  TokenVectors<inputs, rule, K, tile, several> vectors[kEach];
  const auto for_each_token = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int t = several ? j * kWarps + warp : 0;
      if (t < tokens) body(vectors[j], t);
    }
  };
  if constexpr (kStateFirst<State, v_first>) fetch_state();
  for_each_token([&](auto& token, int t) { token.fetch(call, n, t, head); });
  if constexpr (!kStateFirst<State, v_first>) fetch_state();
  for_each_token([&](auto& token, int t) { token.fetch_values(call, n, t, head, first_value); });
  for_each_token([&](auto& token, int t) { token.put(call, head, memory[t]); });
  if constexpr (several) {
    if (const int t = threadIdx.x; t < tokens) memory[t].kept = call.checkpoints.slot_after(n, t + 1);
    if (rule == Rule::additive && call.normalize) {
      __syncthreads();
      for_each_token([&](auto& token, int t) { token.add_keys_before(call, memory, t); });
    }
  }
  __syncthreads();
  Factors factors;
  if constexpr (!several) factors = vectors[0].factors(call, memory[0]);
  const bool writes = call.final_state.data && slots.write >= 0;
  // What a token adds to the state: k u^T + b w^T.
  struct Added {
    float u, w;  ///< times k, times b
  };
  [[maybe_unused]] alignas(16) __shared__ float x_part[several ? 2 : 1][kWarps][tile],
      q_part[several ? 2 : 1][kWarps][tile];  // sums over the keys of each warp

  for (int t = 0; t < tokens; ++t) {
    const Memory& token = memory[several ? t : 0];
    if constexpr (several) factors = memory[t].factors;
    const float q_factor = several ? 1 : factors.q, k_factor = several ? 1 : factors.k;
    const float x_factor = rule == Rule::low_rank ? 1 : k_factor;
    const auto added = [&](float x_sum, float v) -> Added {
      if constexpr (rule == Rule::low_rank) return {v, x_sum};
      return {rule == Rule::delta ? factors.beta * (v - x_sum) : v, 0};
    };
    const auto output = [&](float q_sum, const Added& add) {
      float o = q_sum + factors.qk * add.u;
      if constexpr (rule == Rule::low_rank) o += factors.qb * add.w;
      return rule == Rule::additive && call.normalize ? o / factors.divisor : o;
    };
    // Where the state goes after this token.
    State *to = nullptr, *kept = nullptr;
    const auto is_used = [&] {
      if (t + 1 < tokens) return true;
      if constexpr (several) return writes || memory[t].kept >= 0;
      return writes;
    };
    const auto find_places = [&] {
      if (t + 1 == tokens && writes) to = first_row(call.final_state, slots.write);
      if constexpr (several) {
        if (memory[t].kept >= 0) kept = first_row(call.checkpoints.of(n), memory[t].kept);
      }
    };
    const auto put_state = [&](int i, const float(&s)[kVec]) {
      if (!several || to != nullptr) store_held(to + i * row_step, s);
      if constexpr (several) {
        if (kept != nullptr) store_held(kept + i * row_step, s);
        bits[i] = pack<Held>(s);
      }
    };

    if constexpr (v_first) {
      float x[kVec], qd[kVec], x_sum[loads] = {}, q_sum[loads] = {};
      read(token.x + column, x_factor, x);
      read(token.qd + column, q_factor, qd);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const float s = element<Held>(bits[i], e);
          x_sum[i] += x[e] * s;
          q_sum[i] += qd[e] * s;
        }
      }
      reduce_scatter<kLanes, 1>(x_sum);
      reduce_scatter<kLanes, 1>(q_sum);
      static_assert(kLanes >= loads);  // so that a lane is left with one sum
      constexpr int kCopies = kLanes / loads;
      const int mine = row(lane % kLanes / kCopies);
      const Added add = added(x_sum[0], token.v[mine]);
      if (lane % kCopies == 0) put_o(t, mine, output(q_sum[0], add));
      if (!is_used()) return;
      find_places();
      const float held_u[1] = {add.u}, held_w[1] = {add.w};
      float k[kVec], d[kVec], b[kVec];
      read(token.k + column, k_factor, k);
      read(token.d + column, 1, d);
      if constexpr (rule == Rule::low_rank) read(token.b + column, 1, b);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        const float u = from_owner<kLanes, 1, loads>(held_u, i);
        float w = 0;
        if constexpr (rule == Rule::low_rank) w = from_owner<kLanes, 1, loads>(held_w, i);
        forget<Held>(bits[i]);
        float s[kVec];
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          s[e] = d[e] * element<Held>(bits[i], e) + k[e] * u;
          if constexpr (rule == Rule::low_rank) s[e] += b[e] * w;
        }
        put_state(i, s);
      }
    } else {
      float x_sum[kVec] = {}, q_sum[kVec] = {};
      {
        float x[loads], qd[loads];
        read(token.x + row(0), x_factor, x);
        read(token.qd + row(0), q_factor, qd);
#pragma unroll
        for (int i = 0; i < loads; ++i) {
#pragma unroll
          for (int e = 0; e < kVec; ++e) {
            const float s = element<Held>(bits[i], e);
            x_sum[e] += x[i] * s;
            q_sum[e] += qd[i] * s;
          }
        }
      }
      reduce_scatter<kRows, kLanes>(x_sum);
      reduce_scatter<kRows, kLanes>(q_sum);
      static_assert(kVec >= kRows);
      constexpr int kHeld = kVec / kRows;
      auto& x_parts = x_part[several ? t % 2 : 0];  // in turn, so that one barrier a token does
      auto& q_parts = q_part[several ? t % 2 : 0];
#pragma unroll
      for (int j = 0; j < kHeld; ++j) {
        const int value = column + lane / kLanes * kHeld + j;
        x_parts[warp][value] = x_sum[j], q_parts[warp][value] = q_sum[j];
      }
      __syncthreads();
      const auto added_to = [&](int value) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += x_parts[w][value];
        return added(sum, token.v[value]);
      };
      if (const int value = threadIdx.x; value < tile) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += q_parts[w][value];
        put_o(t, value, output(sum, added_to(value)));
      }
      if (!is_used()) return;
      find_places();
      Added add[kVec];
      float k[loads], d[loads], b[loads];
#pragma unroll
      for (int e = 0; e < kVec; ++e) add[e] = added_to(column + e);
      read(token.k + row(0), k_factor, k);
      read(token.d + row(0), 1, d);
      if constexpr (rule == Rule::low_rank) read(token.b + row(0), 1, b);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        forget<Held>(bits[i]);
        float s[kVec];
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          s[e] = d[i] * element<Held>(bits[i], e) + k[i] * add[e].u;
          if constexpr (rule == Rule::low_rank) s[e] += b[i] * add[e].w;
        }
        put_state(i, s);
      }
    }
  }
}

Source source_of(const Rows& rows) {
  return {rows.data,
          static_cast<unsigned>(rows.batch),
          static_cast<unsigned>(rows.token),
          static_cast<unsigned>(rows.head),
          static_cast<unsigned>(rows.channel),
          rows.dtype};
}

Source source_of(const Parameters& parameters) {
  return {parameters.data,
          0,
          0,
          static_cast<unsigned>(parameters.head),
          static_cast<unsigned>(parameters.channel),
          parameters.dtype};
}

/// Launches on some of the sequences at a time, as many as a grid holds.
template <Inputs inputs, class State, int K, bool v_first, Rule rule, class Call>
cudaError_t launch_all(const Call& call, std::int64_t N, int HV, bool early, cudaStream_t stream) {
  constexpr bool several = std::is_same_v<Call, StepsCall>;
  constexpr int kValues = kTile<std::conditional_t<several, float, State>, K>;
  for (std::int64_t first = 0; first < N; first += kMostBlocks) {
    const dim3 grid{static_cast<unsigned>(call.V / kValues), static_cast<unsigned>(HV),
                    static_cast<unsigned>(std::min(kMostBlocks, N - first))};
    const cudaError_t error = launch_early(decode<inputs, State, K, v_first, rule, several>, grid, kThreads,
                                           early, stream, call, first);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

/// body(std::true_type) or body(std::false_type)
template <class Body>
cudaError_t with_flag(bool flag, Body&& body) {
  return flag ? body(std::true_type{}) : body(std::false_type{});
}

}  // namespace

cudaError_t launch_decode(const RecurrenceCall& given, const CallExtras& given_extras, void* workspace,
                          bool early, cudaStream_t stream) {
  RecurrenceCall placed = given;
  CallExtras extras = given_extras;
  if (const cudaError_t error = place_host_indices(placed, extras, workspace, stream); error != cudaSuccess)
    return error;
  const LowRankPair& pair = extras.pair;
  const bool has_g = given.g.data != nullptr;
  Source g = source_of(has_g ? given.g : given.q);
  if (!has_g) g.batch = g.token = g.head = g.channel = 0;
  const DecodeCall one{.group = given.group,
                       .V = given.V,
                       .q = source_of(given.q),
                       .k = source_of(given.k),
                       .v = source_of(given.v),
                       .g = g,
                       .beta = source_of(given.beta),
                       .a = source_of(pair.a),
                       .b = source_of(pair.b),
                       .o = source_of(given.o),
                       .A_log = source_of(given.A_log),
                       .dt_bias = source_of(given.dt_bias),
                       .scale = given.scale,
                       .lower_bound = given.lower_bound,
                       .head_slope = given.head_slope,
                       .gate = given.gate,
                       .gate_kind = given.gate_kind,
                       .head_gate = given.head_gate,
                       .has_g = has_g,
                       .normalize = given.normalize,
                       .l2norm = given.l2norm,
                       .beta_sigmoid = given.beta_sigmoid,
                       .neg_eigval = given.neg_eigval,
                       .initial_state = given.initial_state,
                       .final_state = given.final_state,
                       .read_slots = placed.read_slots,
                       .write_slots = placed.write_slots};
  bool all_bf16 = true;
  for (const Rows* rows : {&given.q, &given.k, &given.v, &given.g, &given.beta, &pair.a, &pair.b, &given.o})
    all_bf16 &= !rows->data || rows->dtype == DType::bf16;
  const States& states = given.initial_state.data ? given.initial_state
                         : given.final_state.data ? given.final_state
                                                  : extras.checkpoints.states;
  return with_flag(all_bf16, [&]<bool bf16_inputs>(std::bool_constant<bf16_inputs>) {
    return with_flag(states.dtype == DType::bf16, [&]<bool bf16_state>(std::bool_constant<bf16_state>) {
      return with_flag(given.K == 128, [&]<bool wide>(std::bool_constant<wide>) {
        return with_flag(states.key == 1, [&]<bool v_first>(std::bool_constant<v_first>) {
          return with_rule(given.rule, [&]<Rule rule>(std::integral_constant<Rule, rule>) {
            using State = std::conditional_t<bf16_state, __nv_bfloat16, float>;
            constexpr Inputs inputs = bf16_inputs ? Inputs::bf16 : Inputs::any;
            constexpr int K = wide ? 128 : 64;
            const auto launch = [&](const auto& call) {
              return launch_all<inputs, State, K, v_first, rule>(call, given.N, given.HV, early, stream);
            };
            if (given.T == 1 && extras.checkpoints.every == 0) return launch(one);
            return launch(StepsCall{one, static_cast<int>(given.T), extras.checkpoints, extras.accepted});
          });
        });
      });
    });
  });
}

}  // namespace fla::cuda
