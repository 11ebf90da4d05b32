#pragma once

#include "backends/flash_kda/barriers.cuh"
#include "backends/flash_kda/gates.cuh"
#include "backends/flash_kda/prep/shared.cuh"
#include "backends/flash_kda/range.cuh"

/// Step 1: where a task's inputs are, and their way into its place: q, k and g by TMA, beta and the gates'
/// parameters by a warp, which also makes decays of gates of one number a token.
namespace fla::flash_kda {

/// What TMA does not bring: two tokens and four channels a lane.
struct Rest {
  std::uint32_t beta[2], A_log;   // bits
  U4 bias;                        // f32
  std::uint32_t g[2], head_bias;  // bits, with one gate per token; 0 of a rule without gates: no decay
};

template <GateKind kind, Rule rule>
struct Inputs {
  const Params& p;
  std::uint32_t tasks;  ///< of the call
  std::uint32_t lane;

  /// Task w into a record, by one thread. `seen`: what planned_at gave for it.
  FLA_DEVICE void announce(std::int32_t w, const PlannedTask& seen, Smem to) const {
    const Schedule& schedule = p.schedule;
    if (std::uint32_t(w) >= tasks) {
      store(to + Record::head, U4{0, 0, 0, 0});
      return;
    }
    const Task task = locate(p, w, seen);
    store(to + Record::head, U4{std::uint32_t(task.head), std::uint32_t(task.batch),
                                std::uint32_t(task.token), std::uint32_t(task.rows)});
    const std::uint32_t packet =
        schedule.depth ? task.stream * schedule.depth + task.number % schedule.by_depth : std::uint32_t(w);
    store(to + Record::packet, U4{packet, std::uint32_t(task.number), std::uint32_t(task.stream),
                                  std::uint32_t(task.head / schedule.by_group)});
  }
  /// By a warp. In two steps: loads are in flight until store_rest.
  FLA_DEVICE Rest load_rest(Smem record) const {
    const RecurrenceCall& call = p.call;
    const Source from = source_in(record);
    Rest rest{};
    if (from.rows == 0) return rest;
    const std::int64_t head = from.head;
    if constexpr (rule == Rule::delta) {
      const std::int64_t first = from.batch * call.beta.batch +
                                 (std::int64_t(from.token) + lane) * call.beta.token + head * call.beta.head;
      if (lane < from.rows) rest.beta[0] = element_bits(call.beta.data, call.beta.dtype, first);
      if (lane + 32 < from.rows)
        rest.beta[1] = element_bits(call.beta.data, call.beta.dtype, first + 32 * call.beta.token);
    }
    if (call.A_log.data) rest.A_log = element_bits(call.A_log.data, call.A_log.dtype, head * call.A_log.head);
    if constexpr (kind == GateKind::token) {
      if (call.head_gate != HeadGate::given) rest.g[0] = rest.g[1] = f32_bits(head_decay(call, head));
      if (!call.g.data) return rest;
      const std::int64_t at =
          from.batch * call.g.batch + (std::int64_t(from.token) + lane) * call.g.token + head * call.g.head;
      if (lane < from.rows) rest.g[0] = element_bits(call.g.data, call.g.dtype, at);
      if (lane + 32 < from.rows) rest.g[1] = element_bits(call.g.data, call.g.dtype, at + 32 * call.g.token);
      if (call.dt_bias.data)
        rest.head_bias = element_bits(call.dt_bias.data, call.dt_bias.dtype, head * call.dt_bias.head);
      return rest;
    }
    if (4 * lane >= std::uint32_t(call.K)) return rest;
    if (p.bias_rows) {
      rest.bias = *reinterpret_cast<const U4*>(static_cast<const float*>(call.dt_bias.data) +
                                               head * call.dt_bias.head + 4 * lane);
    } else if (call.dt_bias.data) {
      rarely();
      std::uint32_t bits[4];
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)
        bits[i] =
            f32_bits(element(element_bits(call.dt_bias.data, call.dt_bias.dtype,
                                          head * call.dt_bias.head + (4 * lane + i) * call.dt_bias.channel),
                             call.dt_bias.dtype));
      rest.bias = U4{bits[0], bits[1], bits[2], bits[3]};
    }
    return rest;
  }
  /// For raw pairs: the logarithms of E(G_i), by a scan, and the first token whose gate is no number, or
  /// kChunk. Such a gate counts as no decay, and one that leaves next to nothing as 2^-kFarthest. Returns
  /// whether one of the gates is odd.
  FLA_DEVICE bool store_logs(Smem at, std::uint32_t turn, std::uint32_t rows, const Rest& rest) const {
    const RecurrenceCall& call = p.call;
    const Gates gates = gates_of(call, element(rest.A_log, call.A_log.dtype),
                                 F4{element(rest.head_bias, call.dt_bias.dtype), 0, 0, 0});
    float before = 0;
    std::uint32_t lost = 0;  // a bit a token from the last one on
    bool odd = false;
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t token = lane + 32 * half;
      float log = token < rows ? log_decay_of(call.gate, gates, element(rest.g[half], call.g.dtype)) : 0.0f;
      const bool is_lost = !(log < static_cast<float>(kFarthest));  // NaN too
      if (is_lost) log = 0, lost = lost == 0 ? kChunk - token : lost;
      odd |= is_lost || log > kWeakestLog;
      log = max_of(log, -static_cast<float>(kFarthest));
#pragma unroll
      for (std::uint32_t lanes = 1; lanes < 32; lanes *= 2) {
        const std::int32_t other = shuffle(static_cast<std::int32_t>(f32_bits(log)), (lane - lanes) & 31);
        if (lane >= lanes) log += bits_f32(static_cast<std::uint32_t>(other));
      }
      log += before;
      store(logs_of(at, turn) + 4 * token, log);
      before = bits_f32(static_cast<std::uint32_t>(shuffle(static_cast<std::int32_t>(f32_bits(log)), 31)));
    }
    const std::uint32_t from_end = largest(lost);
    if (lane == 0) store(at + Prep::first_lost, kChunk - from_end);
    return odd;
  }
  FLA_DEVICE void store_rest(Smem at, std::uint32_t turn, Rest rest) const {
    const RecurrenceCall& call = p.call;
    const std::uint32_t rows = rows_in(record_of(at, turn));
    bool strong = false, weak = true;  // betas
    if constexpr (rule == Rule::delta) {
#pragma unroll 1
      for (std::uint32_t token = lane; token < kChunk; token += 32) {
        const float beta = token < rows ? beta_of(call, element(rest.beta[0], call.beta.dtype)) : 0.0f;
        const float size = bits_f32(magnitude_bits(beta));
        strong |= !(size <= kStrongestBeta);  // NaN too
        weak &= !(size >= kWeakestBeta);
        store(at + Prep::beta + Prep::betas * turn + 4 * token, beta);
        rest.beta[0] = rest.beta[1];
      }
    }
    bool odd = rule == Rule::delta && (any(strong) || !any(!weak));
    if constexpr (has_raw_pairs(kind)) {
      odd |= any(store_logs(at, turn, rows, rest));
    } else {
      const Gates gates = gates_of(
          call, element(rest.A_log, call.A_log.dtype),
          F4{bits_f32(rest.bias.x), bits_f32(rest.bias.y), bits_f32(rest.bias.z), bits_f32(rest.bias.w)});
      store(at + Prep::gate_offset + Prep::lane * lane, gates.offset);
      if (lane == 0) store(at + Prep::gate_slope, F2{gates.slope, gates.rate});
    }
    if (lane == 0) store(at + Prep::odd_rest, odd ? kOdd : 0u);
    mbar_arrive(at + Prep::bar_g);
  }
  /// By one thread.
  FLA_DEVICE void load_g(Smem at, std::uint32_t turn) const {
    const Source from = source_in(record_of(at, turn));
    if (from.rows == 0 || kind == GateKind::token || p.gate_f32) {
      mbar_arrive(at + Prep::bar_g);
      return;
    }
    mbar_expect(at + Prep::bar_g, 2 * kTile);
#pragma unroll
    for (int h = 0; h < 2; ++h)
      tma_load(at + Prep::g + h * kTile, &p.g, at + Prep::bar_g, 64 * h, from.head, from.token, from.batch);
  }
  /// By a warp: the first three tasks.
  FLA_DEVICE void begin(Smem smem, std::int32_t worker, std::int32_t workers) const {
    if (lane >= 3) return;
    const std::int32_t w = worker + static_cast<std::int32_t>(lane) * workers;
    announce(w, planned_at(p.schedule, w, tasks), record_of(smem + (lane & 1) * Prep::bytes, lane >> 1));
  }
  /// By all folding warps: inputs of the first two.
  FLA_DEVICE void load_first(Smem smem, std::uint32_t warp) const {
    if (warp < 2) {
      const Smem at = smem + warp * Prep::bytes;
      if (lane == 0) load_g(at, 0);
      if (lane < 4) load_qk(at, 0, lane >> 1, lane & 1);
      warp_sync();  // barriers want whole warps
    }
    barrier(Barrier::first_noted, Prep::threads + 64);
  }
  /// A quarter of q and k, by one thread of each of four warps: half h of block b.
  FLA_DEVICE void load_qk(Smem at, std::uint32_t turn, int b, int h) const {
    const Source from = source_in(record_of(at, turn));
    if (from.rows == 0) return;
    const int head = load_u32(record_of(at, turn) + Record::key_head);
    const Smem to = at + Prep::rows0 + b * (Prep::rows1 - Prep::rows0) + h * kTile;
    mbar_expect(at + Prep::bar_qk, kTile);
    tma_load(to + b * Prep::half32, &p.q, at + Prep::bar_qk, 64 * h, head, from.token + 32 * b, from.batch);
    tma_load(to + (1 - b) * Prep::half32, &p.k, at + Prep::bar_qk, 64 * h, head, from.token + 32 * b,
             from.batch);
  }
};

}  // namespace fla::flash_kda
