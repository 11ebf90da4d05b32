#include <algorithm>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/early_launch.cuh"
#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/kda/cuda/gates.cuh"
#include "fla/ops/kda/cuda/host_indices.cuh"

/// One token for every sequence: the state is read once and written once, and everything else is hidden under
/// that.
///
///     S <- diag(a) S      u = beta (v - k^T S)      S <- S + k u^T      o = q^T S = q^T (a S) + (q^T k) u
///
/// The last form needs no sum over the new state, so both sums are taken in one pass over the old one.
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

template <int K, int tile>
struct TokenMemory {
  alignas(16) float qa[K], ka[K], k[K], a[K];  // q and k without norm or scale; qa and ka times the decay
  alignas(16) float v[tile];
  float sums[3][kWarps];  // q^T q, k^T k, q^T k, a warp's share
};

/// The numbers that are the same for the whole head.
struct Factors {
  float q, k, qk, beta;  ///< q = scale / |q|, k = 1 / |k|, qk = q^T k with both
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
  Source q, k, v, g, beta, o, A_log, dt_bias;
  float scale, lower_bound;
  Gate gate;
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
template <Inputs inputs, int K, int tile>
class TokenVectors {
 public:
  __device__ TokenVectors(const DecodeCall& call, unsigned n, unsigned head, unsigned first_value) {
    const unsigned key_head = call.group == 1 ? head : head / static_cast<unsigned>(call.group),
                   i = threadIdx.x;
    if (i < K) {
      q_ = fetch<inputs>(call.q, call.q.at(n, key_head, i));
      k_ = fetch<inputs>(call.k, call.k.at(n, key_head, i));
      g_ = fetch<inputs>(call.g, call.g.at(n, head, i));
      if (call.gate != Gate::given) {
        if (call.dt_bias.data) bias_ = fetch<Inputs::any>(call.dt_bias, call.dt_bias.at(0, head, i));
        if (call.A_log.data) rate_ = fetch<Inputs::any>(call.A_log, call.A_log.at(0, head, 0));
      }
    }
    if (i < tile) v_ = fetch<inputs>(call.v, call.v.at(n, head, first_value + i));
    beta_ = fetch<inputs>(call.beta, call.beta.at(n, head, 0));
  }

  __device__ Factors finish(const DecodeCall& call, TokenMemory<K, tile>& memory) const {
    const int i = threadIdx.x;
    float q = 0, k = 0;
    if (i < K) {
      q = value_of<inputs>(q_, call.q), k = value_of<inputs>(k_, call.k);
      float g[1] = {value_of<inputs>(g_, call.g)}, bias[1] = {0}, rate = 1;
      if (call.gate != Gate::given) {
        if (call.dt_bias.data) bias[0] = value_of<Inputs::any>(bias_, call.dt_bias);
        if (call.A_log.data) rate = __expf(value_of<Inputs::any>(rate_, call.A_log));
      }
      log2_decays(call, rate, bias, g);
      const float a = exp2_decay(g[0]);
      memory.qa[i] = q * a, memory.ka[i] = k * a, memory.k[i] = k, memory.a[i] = a;
    }
    if (i < tile) memory.v[i] = value_of<inputs>(v_, call.v);
    const float sums[3] = {reduce(q * q), reduce(k * k), reduce(q * k)};
    if (i % 32 == 0) {
#pragma unroll
      for (int s = 0; s < 3; ++s) memory.sums[s][i / 32] = sums[s];
    }
    __syncthreads();
    float all[3] = {};
#pragma unroll
    for (int s = 0; s < 3; ++s) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) all[s] += memory.sums[s][w];
    }
    Factors factors{
        .q = call.scale, .k = 1, .qk = 0, .beta = beta_of(call, value_of<inputs>(beta_, call.beta))};
    if (call.l2norm) factors.q *= rsqrtf(all[0] + 1e-6f), factors.k = rsqrtf(all[1] + 1e-6f);
    factors.qk = all[2] * factors.q * factors.k;
    return factors;
  }

 private:
  std::uint32_t q_, k_, g_, v_, beta_, bias_, rate_;
};

/// Blocks that a multiprocessor holds at once: as many as the registers that wait for loads allow.
template <class State, bool v_first>
inline constexpr int kResident = sizeof(State) == 4 || !v_first ? 7 : 6;

/// The token's vectors are needed first and asked for first, except with bf16 states in [K, V]: there the
/// instructions that this takes would keep the state's loads waiting, at N = 32 and H = 32 for 5 % of the
/// time.
template <class State, bool v_first>
inline constexpr bool kStateFirst = sizeof(State) == 2 && !v_first;

template <Inputs inputs, class State, int K, bool v_first>
__global__ void __launch_bounds__(kThreads, kResident<State, v_first>)
    decode(const __grid_constant__ DecodeCall call, std::int64_t first_sequence) {
  constexpr int kVec = kVector<State>, loads = kLoads<State, K>, tile = kTile<State, K>;
  constexpr int kLanes = (v_first ? K : tile) / kVec, kRows = 32 / kLanes;  // of a warp's load
  __shared__ TokenMemory<K, tile> memory;

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
  const TokenVectors<inputs, K, tile> vectors(call, n, head, first_value);
  if constexpr (!kStateFirst<State, v_first>) fetch_state();
  const Factors factors = vectors.finish(call, memory);
  const bool writes = call.final_state.data && slots.write >= 0;

  if constexpr (v_first) {
    float ka[kVec], qa[kVec], k_sum[loads] = {}, q_sum[loads] = {};
    read(memory.ka + column, factors.k, ka);
    read(memory.qa + column, factors.q, qa);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        const float s = element<State>(bits[i], e);
        k_sum[i] += ka[e] * s;
        q_sum[i] += qa[e] * s;
      }
    }
    reduce_scatter<kLanes, 1>(k_sum);
    reduce_scatter<kLanes, 1>(q_sum);
    static_assert(kLanes >= loads);  // so that a lane is left with one sum
    constexpr int kCopies = kLanes / loads;
    const int mine = row(lane % kLanes / kCopies);
    const float u = factors.beta * (memory.v[mine] - k_sum[0]);
    if (lane % kCopies == 0) put_o(mine, q_sum[0] + factors.qk * u);
    if (!writes) return;
    uint4* const to = first_row(call.final_state, slots.write);
    const float held[1] = {u};
    float k[kVec], a[kVec];
    read(memory.k + column, factors.k, k);
    read(memory.a + column, 1, a);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      const float ui = from_owner<kLanes, 1, loads>(held, i);
      forget<State>(bits[i]);
      float s[kVec];
#pragma unroll
      for (int e = 0; e < kVec; ++e) s[e] = a[e] * element<State>(bits[i], e) + k[e] * ui;
      to[i * row_step] = pack<State>(s);
    }
  } else {
    __shared__ alignas(16) float k_part[kWarps][tile], q_part[kWarps][tile];
    float k_sum[kVec] = {}, q_sum[kVec] = {};
    {
      float ka[loads], qa[loads];
      read(memory.ka + row(0), factors.k, ka);
      read(memory.qa + row(0), factors.q, qa);
#pragma unroll
      for (int i = 0; i < loads; ++i) {
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const float s = element<State>(bits[i], e);
          k_sum[e] += ka[i] * s;
          q_sum[e] += qa[i] * s;
        }
      }
    }
    reduce_scatter<kRows, kLanes>(k_sum);
    reduce_scatter<kRows, kLanes>(q_sum);
    static_assert(kVec >= kRows);
    constexpr int kHeld = kVec / kRows;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int value = column + lane / kLanes * kHeld + j;
      k_part[warp][value] = k_sum[j], q_part[warp][value] = q_sum[j];
    }
    __syncthreads();
    const auto u_of = [&](int value) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += k_part[w][value];
      return factors.beta * (memory.v[value] - sum);
    };
    if (const int value = threadIdx.x; value < tile) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += q_part[w][value];
      put_o(value, sum + factors.qk * u_of(value));
    }
    if (!writes) return;
    uint4* const to = first_row(call.final_state, slots.write);
    float u[kVec], k[loads], a[loads];
#pragma unroll
    for (int e = 0; e < kVec; ++e) u[e] = u_of(column + e);
    read(memory.k + row(0), factors.k, k);
    read(memory.a + row(0), 1, a);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      forget<State>(bits[i]);
      float s[kVec];
#pragma unroll
      for (int e = 0; e < kVec; ++e) s[e] = a[i] * element<State>(bits[i], e) + k[i] * u[e];
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
template <Inputs inputs, class State, int K, bool v_first>
cudaError_t launch_all(const DecodeCall& call, std::int64_t N, int HV, bool early, cudaStream_t stream) {
  for (std::int64_t first = 0; first < N; first += kMostBlocks) {
    const dim3 grid(static_cast<unsigned>(call.V / kTile<State, K>), static_cast<unsigned>(HV),
                    static_cast<unsigned>(std::min(kMostBlocks, N - first)));
    const cudaError_t error =
        launch_early(decode<inputs, State, K, v_first>, grid, kThreads, early, stream, call, first);
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

cudaError_t launch_decode(const RecurrenceCall& given, void* workspace, bool early, cudaStream_t stream) {
  RecurrenceCall placed = given;
  if (const cudaError_t error = place_host_indices(placed, workspace, stream); error != cudaSuccess)
    return error;
  const DecodeCall call{.group = given.group,
                        .V = given.V,
                        .q = source_of(given.q),
                        .k = source_of(given.k),
                        .v = source_of(given.v),
                        .g = source_of(given.g),
                        .beta = source_of(given.beta),
                        .o = source_of(given.o),
                        .A_log = source_of(given.A_log),
                        .dt_bias = source_of(given.dt_bias),
                        .scale = given.scale,
                        .lower_bound = given.lower_bound,
                        .gate = given.gate,
                        .l2norm = given.l2norm,
                        .beta_sigmoid = given.beta_sigmoid,
                        .neg_eigval = given.neg_eigval,
                        .initial_state = given.initial_state,
                        .final_state = given.final_state,
                        .read_slots = placed.read_slots,
                        .write_slots = placed.write_slots};
  bool all_bf16 = true;
  for (const Rows* rows : {&given.q, &given.k, &given.v, &given.g, &given.beta, &given.o}) {
    all_bf16 &= rows->dtype == DType::bf16;
  }
  const States& states = given.initial_state.data ? given.initial_state : given.final_state;
  return with_flag(all_bf16, [&]<bool bf16_inputs>(std::bool_constant<bf16_inputs>) {
    return with_flag(states.dtype == DType::bf16, [&]<bool bf16_state>(std::bool_constant<bf16_state>) {
      return with_flag(given.K == 128, [&]<bool wide>(std::bool_constant<wide>) {
        return with_flag(states.key == 1, [&]<bool v_first>(std::bool_constant<v_first>) {
          using State = std::conditional_t<bf16_state, __nv_bfloat16, float>;
          constexpr Inputs inputs = bf16_inputs ? Inputs::bf16 : Inputs::any;
          return launch_all < inputs, State, wide ? 128 : 64,
                 v_first > (call, given.N, given.HV, early, stream);
        });
      });
    });
  });
}

}  // namespace fla::cuda
