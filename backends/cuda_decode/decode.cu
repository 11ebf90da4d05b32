#include <algorithm>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/early_launch.cuh"
#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/common/cuda/instructions.cuh"
#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/recurrence/cuda/gates.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/with_rule.h"

/// One token for every sequence: the state is read once and written once, and everything else is hidden under
/// that.
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
namespace fla::cuda {
namespace {

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

template <int K, int tile>
struct TokenMemory {
  // q and k without norm or scale; qd times the decay. x: the vector of the second sum, k times the decay or
  // a.
  alignas(16) float qd[K], x[K], k[K], d[K];
  alignas(16) float v[tile];
  float sums[kSums][kWarps];  // q^T q, k^T k, q^T k, and with Rule::low_rank q^T b, a warp's share
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

/// One vector a head: strides in 32 bits, for addresses take longer than anything else here.
struct Source {
  const void* data;
  unsigned batch, head, channel;
  DType dtype;

  __device__ std::int64_t at(unsigned n, unsigned h, unsigned i) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(n) * batch +
                                     static_cast<std::uint64_t>(h) * head +
                                     static_cast<std::uint64_t>(i) * channel);
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

/// Sends for this thread's channel and value; finish() waits for them and puts them into shared memory.
template <Inputs inputs, Rule rule, int K, int tile>
class TokenVectors {
 public:
  __device__ TokenVectors(const DecodeCall& call, unsigned n, unsigned head) {
    const unsigned key_head = call.group == 1 ? head : head / static_cast<unsigned>(call.group),
                   i = threadIdx.x;
    if (i < K) {
      q_ = fetch<inputs>(call.q, call.q.at(n, key_head, i));
      k_ = fetch<inputs>(call.k, call.k.at(n, key_head, i));
      std::uint32_t g = fetch<inputs>(call.g, call.g.at(n, head, i));
      cuda::forget(g);  // otherwise the compiler loads it only where has_g is true
      g_ = g;
      if constexpr (rule == Rule::low_rank) {
        a_ = fetch<inputs>(call.a, call.a.at(n, key_head, i));
        b_ = fetch<inputs>(call.b, call.b.at(n, key_head, i));
      }
      if (call.gate != Gate::given) {
        if (call.dt_bias.data) bias_ = fetch<Inputs::any>(call.dt_bias, call.dt_bias.at(0, head, i));
        if (call.A_log.data) rate_ = fetch<Inputs::any>(call.A_log, call.A_log.at(0, head, 0));
      }
    }
    if constexpr (rule == Rule::delta) beta_ = fetch<inputs>(call.beta, call.beta.at(n, head, 0));
  }

  /// After the state is sent for: nothing waits for the values before it is there.
  __device__ void fetch_values(const DecodeCall& call, unsigned n, unsigned head, unsigned first_value) {
    const unsigned i = threadIdx.x;
    if (i < tile) v_ = fetch<inputs>(call.v, call.v.at(n, head, first_value + i));
  }

  template <class Memory>
  __device__ Factors finish(const DecodeCall& call, int head, Memory& memory) const {
    const int i = threadIdx.x;
    float q = 0, k = 0, b = 0;
    if (i < K) {
      q = value_of<inputs>(q_, call.q), k = value_of<inputs>(k_, call.k);
      float g[1] = {value_of<inputs>(g_, call.g)}, bias[1] = {0}, rate = 1;
      if (call.gate != Gate::given) {
        if (call.dt_bias.data) bias[0] = value_of<Inputs::any>(bias_, call.dt_bias);
        if (call.A_log.data) rate = __expf(value_of<Inputs::any>(rate_, call.A_log));
      }
      if (call.has_g)
        log2_decays(call, rate, bias, g);
      else
        g[0] = rule == Rule::additive ? head_log2_decay(call, head) : 0;
      const float d = exp2_decay(g[0]);
      memory.qd[i] = q * d, memory.k[i] = k, memory.d[i] = d;
      if constexpr (rule == Rule::low_rank) {
        b = value_of<inputs>(b_, call.b);
        memory.x[i] = value_of<inputs>(a_, call.a), memory.b[i] = b;
      } else {
        memory.x[i] = k * d;
      }
    }
    if (i < tile) memory.v[i] = value_of<inputs>(v_, call.v);
    float sums[kSums] = {reduce(q * q), reduce(k * k), reduce(q * k)};
    if constexpr (rule == Rule::low_rank) sums[3] = reduce(q * b);
    constexpr int kUsed = rule == Rule::low_rank ? 4 : 3;
    if (i % 32 == 0) {
#pragma unroll
      for (int s = 0; s < kUsed; ++s) memory.sums[s][i / 32] = sums[s];
    }
    __syncthreads();
    float all[kSums] = {};
#pragma unroll
    for (int s = 0; s < kUsed; ++s) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) all[s] += memory.sums[s][w];
    }
    Factors factors{.q = call.scale, .k = 1, .qk = 0, .qb = 0, .beta = 0, .divisor = 1};
    if constexpr (rule == Rule::delta) factors.beta = beta_of(call, value_of<inputs>(beta_, call.beta));
    if (call.l2norm) factors.q *= rsqrtf(all[0] + 1e-6f), factors.k = rsqrtf(all[1] + 1e-6f);
    factors.qk = all[2] * factors.q * factors.k, factors.qb = all[3] * factors.q;
    if (rule == Rule::additive && call.normalize) factors.divisor = factors.qk + 1e-10f;
    return factors;
  }

 private:
  std::uint32_t q_, k_, g_, v_, beta_, a_, b_, bias_, rate_;
};

/// Blocks that a multiprocessor holds at once: as many as the registers that wait for loads allow.
template <class State, bool v_first>
inline constexpr int kResident = sizeof(State) == 4 || !v_first ? 7 : 6;

/// The token's vectors are needed first and asked for first, except with bf16 states in [K, V]: there the
/// instructions that this takes would keep the state's loads waiting, at N = 32 and H = 32 for 5 % of the
/// time.
template <class State, bool v_first>
inline constexpr bool kStateFirst = sizeof(State) == 2 && !v_first;

template <Inputs inputs, class State, int K, bool v_first, Rule rule>
__global__ void __launch_bounds__(kThreads, kResident<State, v_first>)
    decode(const __grid_constant__ DecodeCall call, std::int64_t first_sequence) {
  constexpr int kVec = kVector<State>, loads = kLoads<State, K>, tile = kTile<State, K>;
  constexpr int kLanes = (v_first ? K : tile) / kVec, kRows = 32 / kLanes;  // of a warp's load
  __shared__ std::conditional_t<rule == Rule::low_rank, PairMemory<K, tile>, TokenMemory<K, tile>> memory;

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_value = blockIdx.x * tile, head = blockIdx.y;
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  wait_for_kernel_before();
  const Slots slots = slots_of(call, n);
  const auto put_o = [&](int value, float x) {
    const std::int64_t at = call.o.at(n, head, first_value + value);
    void* const o = const_cast<void*>(call.o.data);
    store(o, inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype, at, x);
  };
  if (slots.read < 0) {
    if (threadIdx.x < tile) put_o(threadIdx.x, 0);
    return;
  }

  // Row i of this lane: a value of the tile, or a key. Its elements begin at `column`.
  const int column = lane % kLanes * kVec;
  const auto row = [&](int i) {
    return v_first ? (warp * loads + i) * kRows + lane / kLanes : (warp * kRows + lane / kLanes) * loads + i;
  };
  const auto first_row = [&](const States& states, std::int64_t slot) {
    const int at = v_first ? (first_value + row(0)) * K + column : row(0) * call.V + first_value + column;
    return reinterpret_cast<uint4*>(static_cast<State*>(states.data) + states.offset(slot, head) + at);
  };
  const int row_step =
      v_first ? kRows * K / kVec : call.V / kVec;  // from load i to i + 1, in units of 16 bytes
  uint4 bits[loads] = {};
  const auto fetch_state = [&] {
    if (!call.initial_state.data) return;
    const uint4* const from = first_row(call.initial_state, slots.read);
#pragma unroll
    for (int i = 0; i < loads; ++i) bits[i] = from[i * row_step];
  };
  if constexpr (kStateFirst<State, v_first>) fetch_state();
  TokenVectors<inputs, rule, K, tile> vectors(call, n, head);
  if constexpr (!kStateFirst<State, v_first>) fetch_state();
  vectors.fetch_values(call, n, head, first_value);
  const Factors factors = vectors.finish(call, head, memory);
  const bool writes = call.final_state.data && slots.write >= 0;
  const float x_factor = rule == Rule::low_rank ? 1 : factors.k;
  // What a token adds to the state: k u^T + b w^T.
  struct Added {
    float u, w;  ///< times k, times b
  };
  const auto added = [&](float x_sum, float v) -> Added {
    if constexpr (rule == Rule::low_rank) return {v, x_sum};
    return {rule == Rule::delta ? factors.beta * (v - x_sum) : v, 0};
  };
  const auto output = [&](float q_sum, const Added& add) {
    float o = q_sum + factors.qk * add.u;
    if constexpr (rule == Rule::low_rank) o += factors.qb * add.w;
    return rule == Rule::additive && call.normalize ? o / factors.divisor : o;
  };

  if constexpr (v_first) {
    float x[kVec], qd[kVec], x_sum[loads] = {}, q_sum[loads] = {};
    read(memory.x + column, x_factor, x);
    read(memory.qd + column, factors.q, qd);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        const float s = element<State>(bits[i], e);
        x_sum[i] += x[e] * s;
        q_sum[i] += qd[e] * s;
      }
    }
    reduce_scatter<kLanes, 1>(x_sum);
    reduce_scatter<kLanes, 1>(q_sum);
    static_assert(kLanes >= loads);  // so that a lane is left with one sum
    constexpr int kCopies = kLanes / loads;
    const int mine = row(lane % kLanes / kCopies);
    const Added add = added(x_sum[0], memory.v[mine]);
    if (lane % kCopies == 0) put_o(mine, output(q_sum[0], add));
    if (!writes) return;
    uint4* const to = first_row(call.final_state, slots.write);
    const float held_u[1] = {add.u}, held_w[1] = {add.w};
    float k[kVec], d[kVec], b[kVec];
    read(memory.k + column, factors.k, k);
    read(memory.d + column, 1, d);
    if constexpr (rule == Rule::low_rank) read(memory.b + column, 1, b);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      const float u = from_owner<kLanes, 1, loads>(held_u, i);
      float w = 0;
      if constexpr (rule == Rule::low_rank) w = from_owner<kLanes, 1, loads>(held_w, i);
      forget<State>(bits[i]);
      float s[kVec];
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        s[e] = d[e] * element<State>(bits[i], e) + k[e] * u;
        if constexpr (rule == Rule::low_rank) s[e] += b[e] * w;
      }
      to[i * row_step] = pack<State>(s);
    }
  } else {
    __shared__ alignas(16) float x_part[kWarps][tile], q_part[kWarps][tile];
    float x_sum[kVec] = {}, q_sum[kVec] = {};
    {
      float x[loads], qd[loads];
      read(memory.x + row(0), x_factor, x);
      read(memory.qd + row(0), factors.q, qd);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const float s = element<State>(bits[i], e);
          x_sum[e] += x[i] * s;
          q_sum[e] += qd[i] * s;
        }
      }
    }
    reduce_scatter<kRows, kLanes>(x_sum);
    reduce_scatter<kRows, kLanes>(q_sum);
    static_assert(kVec >= kRows);
    constexpr int kHeld = kVec / kRows;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int value = column + lane / kLanes * kHeld + j;
      x_part[warp][value] = x_sum[j], q_part[warp][value] = q_sum[j];
    }
    __syncthreads();
    const auto added_to = [&](int value) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += x_part[w][value];
      return added(sum, memory.v[value]);
    };
    if (const int value = threadIdx.x; value < tile) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += q_part[w][value];
      put_o(value, output(sum, added_to(value)));
    }
    if (!writes) return;
    uint4* const to = first_row(call.final_state, slots.write);
    Added add[kVec];
    float k[loads], d[loads], b[loads];
#pragma unroll
    for (int e = 0; e < kVec; ++e) add[e] = added_to(column + e);
    read(memory.k + row(0), factors.k, k);
    read(memory.d + row(0), 1, d);
    if constexpr (rule == Rule::low_rank) read(memory.b + row(0), 1, b);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      forget<State>(bits[i]);
      float s[kVec];
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        s[e] = d[i] * element<State>(bits[i], e) + k[i] * add[e].u;
        if constexpr (rule == Rule::low_rank) s[e] += b[i] * add[e].w;
      }
      to[i * row_step] = pack<State>(s);
    }
  }
}

Source source_of(const Rows& rows) {
  return {rows.data, static_cast<unsigned>(rows.batch), static_cast<unsigned>(rows.head),
          static_cast<unsigned>(rows.channel), rows.dtype};
}

Source source_of(const Parameters& parameters) {
  return {parameters.data, 0, static_cast<unsigned>(parameters.head),
          static_cast<unsigned>(parameters.channel), parameters.dtype};
}

/// Launches on some of the sequences at a time, as many as a grid holds.
template <Inputs inputs, class State, int K, bool v_first, Rule rule>
cudaError_t launch_all(const DecodeCall& call, std::int64_t N, int HV, bool early, cudaStream_t stream) {
  for (std::int64_t first = 0; first < N; first += kMostBlocks) {
    const dim3 grid(static_cast<unsigned>(call.V / kTile<State, K>), static_cast<unsigned>(HV),
                    static_cast<unsigned>(std::min(kMostBlocks, N - first)));
    const cudaError_t error =
        launch_early(decode<inputs, State, K, v_first, rule>, grid, kThreads, early, stream, call, first);
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

cudaError_t launch_decode(const RecurrenceCall& given, const LowRankPair& pair, void* workspace, bool early,
                          cudaStream_t stream) {
  RecurrenceCall placed = given;
  if (const cudaError_t error = place_host_indices(placed, workspace, stream); error != cudaSuccess)
    return error;
  const bool has_g = given.g.data != nullptr;
  Source g = source_of(has_g ? given.g : given.q);
  if (!has_g) g.batch = g.head = g.channel = 0;
  const DecodeCall call{.group = given.group,
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
  const States& states = given.initial_state.data ? given.initial_state : given.final_state;
  return with_flag(all_bf16, [&]<bool bf16_inputs>(std::bool_constant<bf16_inputs>) {
    return with_flag(states.dtype == DType::bf16, [&]<bool bf16_state>(std::bool_constant<bf16_state>) {
      return with_flag(given.K == 128, [&]<bool wide>(std::bool_constant<wide>) {
        return with_flag(states.key == 1, [&]<bool v_first>(std::bool_constant<v_first>) {
          return with_rule(given.rule, [&]<Rule rule>(std::integral_constant<Rule, rule>) {
            using State = std::conditional_t<bf16_state, __nv_bfloat16, float>;
            constexpr Inputs inputs = bf16_inputs ? Inputs::bf16 : Inputs::any;
            return launch_all<inputs, State, (wide ? 128 : 64), v_first, rule>(call, given.N, given.HV, early,
                                                                               stream);
          });
        });
      });
    });
  });
}

}  // namespace fla::cuda
