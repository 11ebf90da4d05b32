#include <utility>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/several.cuh"
#include "fla/ops/common/cuda/host_indices.cuh"

/// A step of a whole layer in one launch: convolution, gate, recurrence and gated norm of one token of every
/// sequence. A block has a key head of a sequence, and goes through its value heads one after another: nobody
/// else reads or writes those channels of the convolution's pool. Of each value head, with a barrier between
/// the rows:
///
///     channels  a thread takes a channel of q, k, v or the gate: a convolution, or a decay; the state comes
///     vectors   a thread takes a channel of q, k and the gate together: what meets the state, and sums
///     sums      over S, for u and o
///     values    a thread takes a value: u and o, and the sum of o's squares
///     results   those threads: the norm and its gate; all: S <- diag(d) S + k u^T
namespace fla::cuda {
namespace {

struct LayerCall : DecodeCall {
  Source x{}, conv_weight{}, conv_bias{}, inputs{};  ///< inputs: the convolution's pool, a slot a batch
  Source z{}, norm_weight{};
  int H = 0, W = 0;
  float eps = 0;
  bool norm_sigmoid = false;
};

/// What a thread sends for: a channel of the convolution, or one of the gate, in the same registers.
template <Inputs inputs>
class Channel {
 public:
  __device__ void fetch_input(const LayerCall& call, unsigned n, unsigned slot, unsigned channel) {
#pragma unroll
    for (int j = 0; j < kMostPast; ++j) {
      if (j >= call.W - 1) continue;
      past_[j] = cuda::fetch<inputs>(call.inputs, call.inputs.at(slot, 0, channel, j));
      weight_[j] = cuda::fetch<inputs>(call.conv_weight, call.conv_weight.at(0, 0, channel, j));
    }
    x_ = cuda::fetch<inputs>(call.x, call.x.at(n, 0, 0, channel));
    last_weight_ = cuda::fetch<inputs>(call.conv_weight, call.conv_weight.at(0, 0, channel, call.W - 1));
    if (call.conv_bias.data) bias_ = cuda::fetch<inputs>(call.conv_bias, call.conv_bias.at(0, 0, channel, 0));
  }

  /// The convolution's output; the newest input goes into the pool.
  __device__ float convolve(const LayerCall& call, unsigned slot, unsigned channel) const {
    const float x = value_of<inputs>(x_, call.x);
    float sum = call.conv_bias.data ? value_of<inputs>(bias_, call.conv_bias) : 0;
    float inputs_after[kMostPast + 1] = {};
#pragma unroll
    for (int j = 0; j < kMostPast; ++j) {
      if (j >= call.W - 1) continue;
      inputs_after[j] = value_of<inputs>(past_[j], call.inputs);
      sum += value_of<inputs>(weight_[j], call.conv_weight) * inputs_after[j];
    }
    sum += value_of<inputs>(last_weight_, call.conv_weight) * x;
    void* const pool = const_cast<void*>(call.inputs.data);
    const DType dtype = inputs == Inputs::bf16 ? DType::bf16 : call.inputs.dtype;
#pragma unroll
    for (int j = 0; j < kMostPast; ++j) {
      if (j >= call.W - 1) continue;
      store(pool, dtype, call.inputs.at(slot, 0, channel, j), j == call.W - 2 ? x : inputs_after[j + 1]);
    }
    return sum * sigmoid(sum);
  }

  __device__ void fetch_gate(const LayerCall& call, unsigned n, unsigned head, unsigned c) {
    x_ = cuda::fetch<inputs>(call.g, call.g.at(n, 0, head, c));
    if (call.gate == Gate::given) return;
    if (call.dt_bias.data) bias_ = cuda::fetch<Inputs::any>(call.dt_bias, call.dt_bias.at(0, 0, head, c));
    if (call.A_log.data) last_weight_ = cuda::fetch<Inputs::any>(call.A_log, call.A_log.at(0, 0, head, 0));
  }
  __device__ float decay(const LayerCall& call, int head) const {
    return decay_of<inputs, Rule::delta>(call, head, x_, bias_, last_weight_);
  }

 private:
  static constexpr int kMostPast = kMaxConvWidth - 1;
  std::uint32_t past_[kMostPast], weight_[kMostPast], x_, last_weight_, bias_;
};

template <class Part, int K, int V>
struct LayerMemory {
  TokenMemory<K, V> token;
  alignas(16) float q[K], k[K];  // as they come out of the convolution
  alignas(16) float u[V];
  Sums<Part, 1> sums[V / Part::tile];
  float squares[V / 32];
};

template <class State, int K, int V>
inline constexpr int kLayerThreads = kThreads* V / kTile<State, K>;

/// Blocks that a multiprocessor holds at once: as many as the registers that wait for loads allow.
template <int threads>
inline constexpr int kLayerResident = threads > 256 ? 2 : 768 / threads;

/// Without `grouped` a key head has one value head: the loop would cost registers.
template <Inputs inputs, class State, int K, int V, bool v_first, bool grouped>
__global__ void __launch_bounds__(kLayerThreads<State, K, V>, kLayerResident<kLayerThreads<State, K, V>>)
    layer_step(const __grid_constant__ LayerCall call) {
  using Part = decode_parts::Part<State, State, K, v_first>;
  constexpr int tile = Part::tile, loads = Part::loads, threads = kLayerThreads<State, K, V>;
  // Of a value head: those of q, k, v and the gate, one behind the other.
  constexpr int channels = 3 * K + V, kMostChannels = (channels + threads - 1) / threads;
  __shared__ LayerMemory<Part, K, V> memory;

  const Part part(threadIdx.x);
  const int part_index = threadIdx.x / kThreads, part_value = part_index * tile, value = threadIdx.x;
  const unsigned n = blockIdx.x, key_head = blockIdx.y;
  const int value_heads = grouped ? call.group : 1, first_head = static_cast<int>(key_head) * value_heads;
  wait_for_kernel_before();
  const Slots slots = slots_of(call, n);
  const auto put_o = [&](int head, float o) {
    store(const_cast<void*>(call.o.data), inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype,
          call.o.at(n, 0, head, value), o);
  };
  if (slots.read < 0) {
    for (int i = 0; i < value_heads; ++i) {
      if (value < V) put_o(first_head + i, 0);
    }
    return;
  }
  const auto slot = static_cast<unsigned>(slots.read);

#pragma unroll 1
  for (int head = first_head; head < first_head + value_heads; ++head) {
    const auto is_due = [&](int i) {  // q and k stay in shared memory for all value heads
      return i < channels && (i >= 2 * K || head == first_head);
    };
    const auto channel_of = [&](int i) {  // in the convolution
      const int HK = call.H * K, of_key = static_cast<int>(key_head) * K;
      return static_cast<unsigned>(i < K       ? of_key + i
                                   : i < 2 * K ? HK + of_key + i - K
                                               : 2 * HK + head * V + i - 2 * K);
    };
    Channel<inputs> own[kMostChannels];
#pragma unroll
    for (int j = 0; j < kMostChannels; ++j) {
      const int i = j * threads + threadIdx.x;
      if (!is_due(i)) continue;
      if (i < 2 * K + V) {
        own[j].fetch_input(call, n, slot, channel_of(i));
      } else {
        own[j].fetch_gate(call, n, head, i - 2 * K - V);
      }
    }
    const std::uint32_t beta = fetch<inputs>(call.beta, call.beta.at(n, 0, head, 0));
    uint4 bits[loads];
    State* const state = part.find(call.final_state, slots.read, head, part_value, V);
    part.fetch(state, V, bits);
    std::uint32_t z = 0, norm_weight = 0;
    if (value < V) {
      z = fetch<inputs>(call.z, call.z.at(n, 0, head, value));
      if (call.norm_weight.data)
        norm_weight = fetch<inputs>(call.norm_weight, call.norm_weight.at(0, 0, value, 0));
    }
#pragma unroll
    for (int j = 0; j < kMostChannels; ++j) {
      const int i = j * threads + threadIdx.x;
      if (!is_due(i)) continue;
      if (i >= 2 * K + V) {
        memory.token.d[i - 2 * K - V] = own[j].decay(call, head);
        continue;
      }
      const float y = own[j].convolve(call, slot, channel_of(i));
      (i < K ? memory.q[i] : i < 2 * K ? memory.k[i - K] : memory.token.v[i - 2 * K]) = y;
    }
    __syncthreads();

    if (const int c = threadIdx.x; c < K) {
      const float q = memory.q[c], k = memory.k[c], d = memory.token.d[c];
      memory.token.qd[c] = q * d, memory.token.x[c] = k * d, memory.token.k[c] = k;
      const float sums[kSums] = {q * q, k * k, q * k, 0};
      put_sums<Rule::delta, K / 32>(sums, memory.token);
    }
    __syncthreads();

    const Factors factors =
        factors_from<Rule::delta, K / 32>(call, memory.token, value_of<inputs>(beta, call.beta));
    float x[Part::kKeys], qd[Part::kKeys];
    read(memory.token.x + part.first_key(), factors.k, x);
    read(memory.token.qd + part.first_key(), factors.q, qd);
    auto& own_sums = memory.sums[part_index];
    part.template sum<Rule::delta>(bits, x, qd, own_sums.x[0], own_sums.qd[0]);
    __syncthreads();

    float o = 0;
    if (value < V) {
      const auto& sums = memory.sums[value / tile];
      float p = 0, r = 0;
#pragma unroll
      for (const auto& share : sums.x[0]) p += share[value % tile];
#pragma unroll
      for (const auto& share : sums.qd[0]) r += share[value % tile];
      const float u = factors.beta * (memory.token.v[value] - p);
      o = r + factors.qk * u;
      memory.u[value] = u * factors.k;
      const float squares = reduce(o * o);
      if (threadIdx.x % 32 == 0) memory.squares[threadIdx.x / 32] = squares;
    }
    __syncthreads();

    if (value < V) {
      float squares = 0;
      for (int w = 0; w < V / 32; ++w) squares += memory.squares[w];
      const float raw = value_of<inputs>(z, call.z), share = sigmoid(raw);
      o *= rsqrtf(squares / static_cast<float>(V) + call.eps) * (call.norm_sigmoid ? share : raw * share);
      put_o(head, call.norm_weight.data ? o * value_of<inputs>(norm_weight, call.norm_weight) : o);
    }
    part.update(bits, memory.token.d, memory.token.k, memory.u + part_value, V, state);
    // What the next value head writes before the first barrier is read before the last one, d excepted.
    if (grouped) __syncthreads();
  }
}

Source inputs_of(const States& pool) {
  return {pool.data,
          static_cast<unsigned>(pool.slot),
          0,
          static_cast<unsigned>(pool.key),
          static_cast<unsigned>(pool.value),
          pool.dtype};
}

bool all_are_bf16(const LayerCall& call) {
  for (const Source* source : {&call.x, &call.conv_weight, &call.conv_bias, &call.inputs, &call.z,
                               &call.norm_weight, &call.g, &call.beta, &call.o}) {
    if (source->data && source->dtype != DType::bf16) return false;
  }
  return true;
}

}  // namespace

cudaError_t launch_layer_step(const StepCall& given, void* workspace, bool early, cudaStream_t stream) {
  RecurrenceCall recurrence = given.recurrence;
  if (const cudaError_t error = place_host_indices(recurrence, workspace, stream); error != cudaSuccess)
    return error;
  recurrence.o = given.norm.o;
  LayerCall call{decode_call(recurrence, {}, recurrence.read_slots, {})};
  call.x = source_of(given.conv.x), call.inputs = inputs_of(given.conv.final_state);
  call.conv_weight = source_of(given.conv.weight), call.conv_bias = source_of(given.conv.bias);
  call.z = source_of(given.norm.g), call.norm_weight = source_of(given.norm.weight);
  call.H = recurrence.HV / recurrence.group, call.W = given.conv.W;
  call.eps = given.norm.eps, call.norm_sigmoid = !given.norm.silu;
  if (recurrence.N == 0) return cudaSuccess;
  const dim3 grid{static_cast<unsigned>(recurrence.N), static_cast<unsigned>(call.H), 1};
  return with_sizes(all_are_bf16(call), recurrence, recurrence.final_state,
                    [&]<Inputs inputs, class State, int K, bool v_first>() {
                      return with_flag(recurrence.V == K, [&]<bool square>(std::bool_constant<square>) {
                        constexpr int V = square ? K : 192 - K;
                        const auto launch = [&]<bool grouped>(std::bool_constant<grouped>) {
                          // Other sizes are rare: they do with fewer kernels.
                          constexpr Inputs used = square && K == 128 ? inputs : Inputs::any;
                          return launch_early(layer_step<used, State, K, V, v_first, grouped>, grid,
                                              kLayerThreads<State, K, V>, 0, early, stream, call);
                        };
                        if constexpr (square && K == 128) return with_flag(recurrence.group > 1, launch);
                        return launch(std::true_type{});
                      });
                    });
}

}  // namespace fla::cuda
