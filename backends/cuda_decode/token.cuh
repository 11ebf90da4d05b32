#pragma once

#include <algorithm>
#include <type_traits>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/early_launch.cuh"
#include "backends/cuda_decode/limits.h"
#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/common/cuda/instructions.cuh"
#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/recurrence/cuda/gates.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

/// What cuda_decode's kernels share: elements of a state in registers, the vectors of tokens in shared
/// memory, and launches.
namespace fla::cuda {
inline namespace decode_parts {

using cuda_decode::kMostTokens;

inline constexpr int kThreads = 128, kWarps = kThreads / 32;

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

inline constexpr int kSums = 4;
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

/// A channel's decay, of its gate and of the parameters of that.
template <Inputs inputs, Rule rule>
__device__ float decay_of(const DecodeCall& call, int head, std::uint32_t g_bits, std::uint32_t bias_bits,
                          std::uint32_t rate_bits) {
  float g[1] = {value_of<inputs>(g_bits, call.g)}, bias[1] = {0}, rate = 1;
  if (call.gate != Gate::given) {
    if (call.dt_bias.data) bias[0] = value_of<Inputs::any>(bias_bits, call.dt_bias);
    if (call.A_log.data) rate = __expf(value_of<Inputs::any>(rate_bits, call.A_log));
  }
  if (call.has_g)
    log2_decays(call, rate, bias, g);
  else
    g[0] = rule == Rule::additive ? head_log2_decay(call, head) : 0;
  return exp2_decay(g[0]);
}

/// By each of so many warps: its share of a token's sums.
template <Rule rule, int warps, class Memory>
__device__ void put_sums(const float (&sums)[kSums], Memory& memory) {
#pragma unroll
  for (int s = 0; s < kUsedSums<rule>; ++s) {
    const float sum = reduce(sums[s]);
    if (threadIdx.x % 32 == 0) memory.sums[s][threadIdx.x / 32 % warps] = sum;
  }
}

/// Once all of them have put theirs.
template <Rule rule, int warps, class Memory>
__device__ Factors factors_from(const DecodeCall& call, const Memory& memory, float raw_beta) {
  float all[kSums] = {};
#pragma unroll
  for (int s = 0; s < kUsedSums<rule>; ++s) {
#pragma unroll
    for (int w = 0; w < warps; ++w) all[s] += memory.sums[s][w];
  }
  return factors_of<rule>(call, all, raw_beta);
}

/// Sends for this thread's channels and values of a token, which so many warps make; put() waits for them and
/// puts them into shared memory.
template <Inputs inputs, Rule rule, int K, int tile, int warps = kWarps>
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
      d[c] = decay_of<inputs, rule>(call, head, g_[c], bias_[c], rate_);
    });
    for_each_channel([&](int c, unsigned i) {
      memory.qd[i] = q[c] * d[c], memory.k[i] = k[c], memory.d[i] = d[c];
      if constexpr (rule == Rule::low_rank) {
        memory.x[i] = value_of<inputs>(a_[c], call.a), memory.b[i] = b[c];
      } else {
        memory.x[i] = k[c] * d[c];
      }
    });
    for_each_value([&](int j, unsigned i) { memory.v[i] = value_of<inputs>(v_[j], call.v); });
    float sums[kSums] = {};
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      sums[0] += q[c] * q[c], sums[1] += k[c] * k[c], sums[2] += q[c] * k[c];
      if constexpr (rule == Rule::low_rank) sums[3] += q[c] * b[c];
    }
    put_sums<rule, warps>(sums, memory);
  }

  /// Once all warps have put the token.
  template <class Memory>
  __device__ Factors factors(const DecodeCall& call, const Memory& memory) const {
    return factors_from<rule, warps>(call, memory, value_of<inputs>(beta_, call.beta));
  }

  /// body(channel, k, g): the bits of the token's key and gate.
  template <class Body>
  __device__ void for_each_raw(Body&& body) const {
    for_each_channel([&](int c, unsigned i) { body(i, k_[c], g_[c]); });
  }

 private:
  static constexpr int kThreadsOfOne = 32 * warps;
  template <int count>
  static constexpr int kEach = (count + kThreadsOfOne - 1) / kThreadsOfOne;
  static constexpr int kChannels = kEach<K>, kValues = kEach<tile>;

  template <int count, class Body>
  static __device__ void for_each_place(Body&& body) {
#pragma unroll
    for (int c = 0; c < kEach<count>; ++c) {
      const unsigned i = c * kThreadsOfOne + threadIdx.x % kThreadsOfOne;
      if (count % kThreadsOfOne == 0 || i < count) body(c, i);
    }
  }
  template <class Body>
  static __device__ void for_each_channel(Body&& body) {
    for_each_place<K>(body);
  }
  template <class Body>
  static __device__ void for_each_value(Body&& body) {
    for_each_place<tile>(body);
  }

  std::uint32_t q_[kChannels], k_[kChannels], g_[kChannels], a_[kChannels], b_[kChannels], bias_[kChannels],
      v_[kValues], beta_, rate_;
};

inline Source source_of(const Rows& rows) {
  return {rows.data,
          static_cast<unsigned>(rows.batch),
          static_cast<unsigned>(rows.token),
          static_cast<unsigned>(rows.head),
          static_cast<unsigned>(rows.channel),
          rows.dtype};
}

inline Source source_of(const Parameters& parameters) {
  return {parameters.data,
          0,
          0,
          static_cast<unsigned>(parameters.head),
          static_cast<unsigned>(parameters.channel),
          parameters.dtype};
}

inline DecodeCall decode_call(const RecurrenceCall& given, const LowRankPair& pair, const Indices& read_slots,
                              const Indices& write_slots) {
  const bool has_g = given.g.data != nullptr;
  Source g = source_of(has_g ? given.g : given.q);
  if (!has_g) g.batch = g.token = g.head = g.channel = 0;
  return {.group = given.group,
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
          .read_slots = read_slots,
          .write_slots = write_slots};
}

/// Whether every vector of a call has that dtype.
inline bool all_are_bf16(const RecurrenceCall& given, const LowRankPair& pair) {
  bool all_bf16 = true;
  for (const Rows* rows : {&given.q, &given.k, &given.v, &given.g, &given.beta, &pair.a, &pair.b, &given.o})
    all_bf16 &= !rows->data || rows->dtype == DType::bf16;
  return all_bf16;
}

/// body(std::true_type) or body(std::false_type)
template <class Body>
cudaError_t with_flag(bool flag, Body&& body) {
  return flag ? body(std::true_type{}) : body(std::false_type{});
}

/// body<inputs, State, K, v_first>() for a call with states like these; `all_bf16`: its vectors.
template <class Body>
cudaError_t with_sizes(bool all_bf16, const RecurrenceCall& given, const States& states, Body&& body) {
  return with_flag(all_bf16, [&]<bool bf16_inputs>(std::bool_constant<bf16_inputs>) {
    return with_flag(states.dtype == DType::bf16, [&]<bool bf16_state>(std::bool_constant<bf16_state>) {
      return with_flag(given.K == 128, [&]<bool wide>(std::bool_constant<wide>) {
        return with_flag(states.key == 1, [&]<bool v_first>(std::bool_constant<v_first>) {
          using State = std::conditional_t<bf16_state, __nv_bfloat16, float>;
          return body.template operator() < bf16_inputs ? Inputs::bf16 : Inputs::any, State, wide ? 128 : 64,
                 v_first > ();
        });
      });
    });
  });
}

/// A block for so many values of a head of a sequence; on some of the sequences at a time, as many as a grid
/// holds. The kernel's last argument is the first of them.
template <class Kernel, class... Calls>
cudaError_t launch_blocks(Kernel* kernel, const RecurrenceCall& given, int values, int threads,
                          int shared_bytes, bool early, cudaStream_t stream, const Calls&... calls) {
  for (std::int64_t first = 0; first < given.N; first += kMostBlocks) {
    const dim3 grid{static_cast<unsigned>(given.V / values), static_cast<unsigned>(given.HV),
                    static_cast<unsigned>(std::min(kMostBlocks, given.N - first))};
    const cudaError_t error =
        launch_early(kernel, grid, threads, shared_bytes, early, stream, calls..., first);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace decode_parts
}  // namespace fla::cuda
