#pragma once

#include "backends/cuda_decode/token.cuh"
#include "fla/ops/recurrence/replay_call.h"

/// What the kernels of steps over rings share: a ring's tokens, as a thread reads and appends them.
namespace fla::cuda {
inline namespace decode_parts {

inline constexpr int kMostPlaces = 32;  ///< of a ring

/// What makes a head's decays of the numbers that are given, in one channel.
struct ChannelGate {
  const DecodeCall& call;
  int head;
  float rate = 1, bias = 0;

  __device__ ChannelGate(const DecodeCall& of, int of_head, int c) : call(of), head(of_head) {
    const Source &A_log = call.A_log, &dt_bias = call.dt_bias;
    if (call.gate == Gate::given) return;
    if (A_log.data) rate = __expf(load(A_log.data, A_log.dtype, A_log.at(0, 0, head, 0)));
    if (dt_bias.data) bias = load(dt_bias.data, dt_bias.dtype, dt_bias.at(0, 0, head, c));
  }

  /// In the place of those numbers.
  template <int count>
  __device__ void make_decays(float (&x)[count]) const {
    if (call.has_g) {
      float biases[count];
#pragma unroll
      for (float& each : biases) each = bias;
      log2_decays(call, rate, biases, x);
    } else {
      const float of_head = head_log2_decay(call, head);
#pragma unroll
      for (float& each : x) each = of_head;
    }
#pragma unroll
    for (float& each : x) each = exp2_decay(each);
  }
};

/// A channel of a ring's tokens, in memory.
struct RingRow {
  DType dtype;
  char* first;
  std::uint64_t step;  ///< bytes from place to place

  __device__ RingRow(const Rows& rows, const Ring& ring, int head, int c) : dtype(rows.dtype) {
    const int size = is_16_bit(dtype) ? 2 : 4;
    first =
        static_cast<char*>(rows.data) + (ring.slot * rows.batch + head * rows.head + c * rows.channel) * size;
    step = static_cast<std::uint64_t>(rows.token * size);
  }
  __device__ char* at(int place) const { return first + static_cast<unsigned>(place) * step; }
  __device__ std::uint32_t load(int place) const { return load_bits(at(place), is_16_bit(dtype), 0); }
};

/// Appends a channel of token t's key and gate, as they were given; of a key, the first value head of its
/// group.
__device__ inline void append(const DecodeCall& call, const ReplayCall& replay, const Ring& ring, int head,
                              int t, unsigned c, std::uint32_t k, std::uint32_t g) {
  const int place = ring.place(ring.count + t), channel = static_cast<int>(c);
  const auto store = [&](const RingRow& row, std::uint32_t bits) {
    if (is_16_bit(row.dtype)) {
      *reinterpret_cast<std::uint16_t*>(row.at(place)) = static_cast<std::uint16_t>(bits);
    } else {
      *reinterpret_cast<std::uint32_t*>(row.at(place)) = bits;
    }
  };
  if (head % call.group == 0) store({replay.ring.k, ring, head / call.group, channel}, k);
  const bool by_channel = call.gate_kind == GateKind::channel,
             has_gate = call.has_g && call.gate_kind != GateKind::head;
  if (has_gate && (by_channel || c == 0)) store({replay.ring.g, ring, head, channel}, g);
}

/// A value of a ring's u.
class RingValue {
 public:
  __device__ RingValue(const ReplayCall& replay, const Ring& ring, int head, int value)
      : ring_(ring), step_(static_cast<std::uint64_t>(replay.ring.v.token)) {
    const Rows& u = replay.ring.v;
    first_ = static_cast<float*>(u.data) + ring.slot * u.batch + head * u.head + value * u.channel;
  }
  __device__ float* u(int i) const { return first_ + static_cast<unsigned>(ring_.place(i)) * step_; }

 private:
  const Ring& ring_;
  float* first_;
  std::uint64_t step_;
};

}  // namespace decode_parts
}  // namespace fla::cuda
