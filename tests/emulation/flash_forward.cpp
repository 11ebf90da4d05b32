#include "tests/emulation/flash_forward.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <span>
#include <utility>

#include "backends/flash_kda/combine.cuh"
#include "backends/flash_kda/forward.cuh"
#include "backends/flash_kda/plan.cuh"
#include "backends/flash_kda/route.h"
#include "backends/flash_kda/segment.cuh"
#include "fla/ops/recurrence/call_of.h"
#include "tests/emulation/tensor_map.h"

namespace fla::emulation {
namespace {

using flash_kda::Half16;

constexpr std::int64_t kForeign = 24;  // elements beside a row's own

/// The arguments of a case again in the device's memory, with room for results.
class Placed {
 public:
  Placed(Device& device, const Forward& forward, const KdaArgs& given)
      : device_(device),
        forward_(forward),
        given_(given),
        args_(given),
        tokens_(given.q.size(1) + forward.beyond) {
    place_tokens(forward.fused);
    for (TensorView KdaArgs::*argument : {&KdaArgs::A_log, &KdaArgs::dt_bias, &KdaArgs::cu_seqlens,
                                          &KdaArgs::state_indices, &KdaArgs::state_write_indices})
      args_.*argument = copied(given.*argument);
    for (TensorView KdaArgs::*state : {&KdaArgs::initial_state, &KdaArgs::final_state})
      args_.*state = copied(given.*state, state_offset());
    if (forward.without_initial_state) args_.initial_state = {};
    if (forward.in_place) args_.final_state = args_.initial_state;
    std::ranges::copy(forward.cu_seqlens, args_.cu_seqlens.as<std::int64_t>());
    std::ranges::copy(forward.state_indices, args_.state_indices.as<std::int64_t>());
    std::ranges::copy(forward.state_write_indices, args_.state_write_indices.as<std::int64_t>());
    place_results();
  }

  const KdaArgs& args() const { return args_; }
  RecurrenceCall call() const {
    RecurrenceCall call = call_of(args_, result_);
    for (cuda::Indices* indices : {&call.cu_seqlens, &call.read_slots, &call.write_slots})
      indices->on_host = false;
    return call;
  }
  const TensorView& padded_o() const { return result_.o; }
  /// Without the tokens after the sequences.
  KdaResult result() const {
    return {Tensor::over(result_.o.view().slice(1, 0, given_.q.size(1))), result_.final_state};
  }

  /// Whether nothing was written that no call writes: columns beside the heads, tokens after the sequences,
  /// slots that nobody writes.
  bool is_clean(const cases::Reference& reference) const {
    const TensorView& o = result_.o;
    for (std::int64_t b = 0; b < o.size(0); ++b)
      for (std::int64_t t = 0; t < tokens_; ++t)
        for (std::int64_t c = t < given_.q.size(1) ? o.size(2) * o.size(3) : 0; c < o.stride(1); ++c)
          if (o.as<std::uint16_t>()[b * o.stride(0) + t * o.stride(1) + c] != 0xffff) return false;
    if (reference.slots.empty() || !result_.final_state.defined()) return true;
    const TensorView& before = given_.final_state;
    const auto bytes = static_cast<std::size_t>(before.stride(0)) * sizeof(float);
    for (std::int64_t slot = 0; slot < before.size(0); ++slot)
      if (std::ranges::find(reference.slots, slot) == reference.slots.end() &&
          std::memcmp(result_.final_state.as<float>() + slot * before.stride(0),
                      before.as<float>() + slot * before.stride(0), bytes) != 0)
        return false;
    return true;
  }

 private:
  /// The contents of q, k, v, g or beta in rows of `row` elements.
  TensorView placed(const TensorView& from, std::byte* data, std::int64_t row) const {
    const bool has_channels = from.rank() == 4;
    const std::int64_t channels = has_channels ? from.size(3) : 1;
    const auto bytes = static_cast<std::int64_t>(size_of(from.dtype()));
    for (std::int64_t b = 0; b < from.size(0); ++b)
      for (std::int64_t t = 0; t < from.size(1); ++t)
        for (std::int64_t h = 0; h < from.size(2); ++h)
          std::memcpy(
              data + ((b * tokens_ + t) * row + h * channels) * bytes,
              from.as<std::byte>() + (b * from.stride(0) + t * from.stride(1) + h * from.stride(2)) * bytes,
              static_cast<std::size_t>(channels * bytes));
    const std::array shape{from.size(0), tokens_, from.size(2), channels};
    const std::array strides{tokens_ * row, row, channels, std::int64_t{1}};
    const std::size_t rank = has_channels ? 4 : 3;
    return {data, from.dtype(), std::span(shape).first(rank), std::span(strides).first(rank)};
  }

  std::byte* rows(const char* name, DType dtype, std::int64_t row) {
    return device_
        .buffer<std::byte>(name, static_cast<std::size_t>(given_.q.size(0) * tokens_ * row) * size_of(dtype))
        .data();
  }

  void place_tokens(bool fused) {
    struct Part {
      const char* name;
      TensorView KdaArgs::*tensor;
    };
    const std::array parts{Part{"q", &KdaArgs::q}, Part{"k", &KdaArgs::k}, Part{"v", &KdaArgs::v},
                           Part{"g", &KdaArgs::g}, Part{"beta", &KdaArgs::beta}};
    const auto width = [](const TensorView& x) {  // of a token's row, in whole pieces of 16 bytes
      return (x.size(2) * (x.rank() == 4 ? x.size(3) : 1) + 7) / 8 * 8;
    };
    for (const DType dtype : {given_.q.dtype(), DType::f32}) {
      std::int64_t row = kForeign;
      for (const Part& part : parts)
        if ((given_.*part.tensor).dtype() == dtype) row += width(given_.*part.tensor);
      if (row == kForeign) continue;
      std::byte* at = fused ? rows("fused rows", dtype, row) : nullptr;
      for (const Part& part : parts) {
        const TensorView& from = given_.*part.tensor;
        if (from.dtype() != dtype) continue;
        if (fused) {
          args_.*part.tensor = placed(from, at, row);
          at += static_cast<std::size_t>(width(from)) * size_of(dtype);
        } else {
          const std::int64_t own = width(from) + kForeign;
          args_.*part.tensor = placed(from, rows(part.name, dtype, own), own);
        }
      }
    }
  }

  std::size_t state_offset() const { return forward_.crooked_states ? sizeof(float) : 0; }

  TensorView copied(const TensorView& from, std::size_t offset = 0) {
    if (!from.defined()) return from;
    const std::size_t bytes = static_cast<std::size_t>(from.numel()) * size_of(from.dtype());
    std::byte* const to =
        device_.buffer<std::byte>("a small argument or a state", bytes + offset).data() + offset;
    std::memcpy(to, from.data(), bytes);
    return {to, from.dtype(), from.shape()};
  }

  void place_results() {
    const RecurrenceSizes s = sizes_of(args_);
    const std::int64_t row = s.HV * s.V + kForeign;
    const std::array shape{s.B, tokens_, s.HV, s.V}, strides{tokens_ * row, row, s.V, std::int64_t{1}};
    result_.o = Tensor::over(TensorView(rows("o", DType::bf16, row), given_.v.dtype(), shape, strides));
    if (!given_.output_final_state) return;
    if (args_.final_state.defined()) {
      result_.final_state = Tensor::over(args_.final_state);
      return;
    }
    const std::array states{s.N, s.HV, given_.state_v_first ? s.V : s.K, given_.state_v_first ? s.K : s.V};
    const std::size_t offset = state_offset() / sizeof(float);
    float* const data =
        device_.buffer<float>("final_state", static_cast<std::size_t>(s.N * s.HV * s.K * s.V) + offset)
            .data() +
        offset;
    result_.final_state = Tensor::over(TensorView(data, DType::f32, states));
  }

  Device& device_;
  const Forward& forward_;
  const KdaArgs& given_;
  KdaArgs args_;
  std::int64_t tokens_;
  KdaResult result_;
};

using Body = void (*)(const flash_kda::Params&, flash_kda::Smem);
template <Half16 type, Rule rule>
Body forward_body(GateKind kind) {
  return kind == GateKind::channel ? flash_kda::forward<type, GateKind::channel, rule>
                                   : flash_kda::forward<type, GateKind::token, rule>;
}
Body forward_body(const RecurrenceCall& call) {
  if (call.q.dtype == DType::bf16)
    return call.rule == Rule::delta ? forward_body<Half16::bf16, Rule::delta>(call.gate_kind)
                                    : forward_body<Half16::bf16, Rule::additive>(call.gate_kind);
  return call.rule == Rule::delta ? forward_body<Half16::f16, Rule::delta>(call.gate_kind)
                                  : forward_body<Half16::f16, Rule::additive>(call.gate_kind);
}
Body part_body(const RecurrenceCall& call) {
  if (call.q.dtype == DType::bf16)
    return call.rule == Rule::delta ? flash_kda::part<Half16::bf16, Rule::delta>
                                    : flash_kda::part<Half16::bf16, Rule::additive>;
  return call.rule == Rule::delta ? flash_kda::part<Half16::f16, Rule::delta>
                                  : flash_kda::part<Half16::f16, Rule::additive>;
}

/// As the launch function makes them: a box is `tokens` x 64 channels of one head.
TensorMap map_of(const TensorView& x, std::uint32_t tokens = flash_kda::kChunk) {
  const auto size = [&](int axis) { return static_cast<std::uint64_t>(x.size(axis)); };
  const auto stride = [&](int axis) {
    return x.size(axis) > 1 ? 2 * static_cast<std::uint64_t>(x.stride(axis)) : 256;
  };
  return tensor_map(x.data(), 2, std::array{size(3), size(2), size(1), size(0)},
                    std::array{stride(2), stride(1), stride(0)},
                    std::array<std::uint32_t, 4>{64, 1, tokens, 1});
}

/// A box is 64 rows x 32 columns of a head's state.
TensorMap map_of(const RecurrenceCall& call, const cuda::States& states) {
  const bool keys = states.key == 1;
  const auto size = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  return tensor_map(
      states.data, 4,
      std::array{size(keys ? call.K : call.V), size(keys ? call.V : call.K), size(call.HV),
                 size(states.slots)},
      std::array{4 * size(keys ? states.value : states.key), call.HV > 1 ? 4 * size(states.head) : 256,
                 states.slots > 1 ? 4 * size(states.slot) : 256},
      std::array<std::uint32_t, 4>{32, 64, 1, 1});
}

}  // namespace

void repeat_first_channel(const TensorView& x, std::int64_t channels) {
  if (!x.defined()) return;
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  for (std::int64_t i = 0; i < x.numel(); ++i)
    std::memcpy(x.as<std::byte>() + i * bytes, x.as<std::byte>() + i / channels * channels * bytes,
                static_cast<std::size_t>(bytes));
}

cases::Reference reference_of(const Forward& forward, const KdaArgs& args) {
  if (forward.rule == Rule::delta) return cases::reference_of(args);
  GlaArgs additive;
  additive.q = args.q, additive.k = args.k, additive.v = args.v, additive.g = args.g;
  additive.scale = args.scale;
  additive.initial_state = args.initial_state, additive.final_state = args.final_state;
  additive.output_final_state = args.output_final_state, additive.state_v_first = args.state_v_first;
  additive.cu_seqlens = args.cu_seqlens;
  additive.state_indices = args.state_indices, additive.state_write_indices = args.state_write_indices;
  return cases::reference_of(additive);
}

ForwardResult run(const Forward& forward, const Options& options) {
  constexpr float kSlope = 0.03f;
  const cases::KdaCase made = cases::make_kda_case(forward.spec);
  if (forward.change) forward.change(made.args);
  if (forward.gates == GateKind::none)
    std::memset(made.args.g.data(), 0,
                static_cast<std::size_t>(made.args.g.numel()) * size_of(made.args.g.dtype()));
  if (forward.gates == GateKind::head) {
    const std::int64_t K = made.args.g.size(3), heads = made.args.g.size(2);
    for (std::int64_t i = 0; i < made.args.g.numel(); ++i)
      made.args.g.as<float>()[i] = -kSlope * static_cast<float>(i / K % heads);
  }
  if (forward.gates == GateKind::token) {
    repeat_first_channel(made.args.g, forward.spec.K);
    repeat_first_channel(made.args.dt_bias, forward.spec.K);
  }
  Device device;
  const Placed placed(device, forward, made.args);
  const KdaArgs& args = placed.args();
  RecurrenceCall call = placed.call();
  call.gate_kind = forward.gates, call.rule = forward.rule;
  if (forward.gates == GateKind::none || forward.gates == GateKind::head) call.g = {};
  if (forward.gates == GateKind::head) call.head_gate = HeadGate::slopes, call.head_slope = kSlope;
  if (forward.rule == Rule::additive) call.beta = {};
  const std::int32_t items = flash_kda::items_of(call);

  const flash_kda::Route route{.streams = forward.streams > 0 ? forward.streams : items,
                               .depth = forward.streams > 0 ? forward.depth : 0,
                               .prep_blocks = forward.prep_blocks,
                               .segments = forward.segments,
                               .shares = forward.split ? 2 : 1};
  const std::size_t bytes = flash_kda::workspace_of(call, route, nullptr).bytes;
  const auto memory = device.buffer<std::byte>("workspace", (bytes + 255) / 256 * 256);
  std::ranges::fill(memory, std::byte{0x7f});  // NaN as numbers, and as flags raised long ago

  struct Slice {
    RecurrenceCall call;
    flash_kda::Route route;
    flash_kda::Workspace workspace;
    flash_kda::Params params{}, states{};  // of the last kernel
  };
  std::deque<Slice> slices;
  std::vector<Kernel> kernels;
  const auto add_slice = [&](std::int32_t index) {
    Slice& slice = slices.emplace_back(Slice{flash_kda::slice_of(call, index), route, {}});
    if (slice.call.V <= flash_kda::kChunk) slice.route.shares = 1;
    slice.workspace = flash_kda::workspace_of(slice.call, slice.route, memory.data());
    flash_kda::Params& params = slice.params;
    params.call = flash_kda::with_pool(slice.call);
    for (int keys = 0; keys < 2; ++keys) params.windows[keys] = flash_kda::window_of(slice.call, keys == 0);
    params.schedule = slice.workspace.schedule;
    params.segments = slice.workspace.segments;
    params.split = slice.route.shares == 2;
    params.looks = forward.looks;
    params.gate_f32 = args.g.dtype() == DType::f32;
    params.bias_rows = flash_kda::has_rows(call.dt_bias);
    if (call.T > 0) {
      params.q = map_of(args.q, 32);
      params.k = map_of(args.k, 32);
      if (forward.gates == GateKind::channel && !params.gate_f32) params.g = map_of(args.g);
      params.v = map_of(args.v.slice(3, index * flash_kda::kHead, slice.call.V));
      params.o = map_of(placed.padded_o().slice(3, index * flash_kda::kHead, slice.call.V));
    }
    params.first_by_tma = flash_kda::has_boxes(slice.call.initial_state);
    params.last_by_tma = flash_kda::has_boxes(slice.call.final_state);
    if (params.first_by_tma) params.first_state = map_of(slice.call, slice.call.initial_state);
    if (params.last_by_tma) params.last_state = map_of(slice.call, slice.call.final_state);
    slice.states = params;

    const std::size_t before = kernels.size();
    const auto add = [&](Kernel kernel) {
      kernel.early = kernels.size() > before;
      kernels.push_back(std::move(kernel));
    };
    const auto add_forward = [&](const char* name, flash_kda::Params& given, int blocks, int state_blocks) {
      given.state_blocks = state_blocks;
      add({.name = name,
           .blocks = static_cast<std::uint32_t>(blocks),
           .threads = flash_kda::kThreads,
           .shared_bytes = flash_kda::kSharedBytes,
           .body = [&given, body = forward_body(call)](Smem smem) { body(given, smem); },
           .resident = route.together() ? 0u : 2u});
    };
    const std::int32_t state_blocks = slice.route.state_blocks();
    if (flash_kda::planned(call) || route.depth > 0)
      add({.name = "plan",
           .blocks = 2,
           .threads = flash_kda::kPlanThreads,
           .shared_bytes = flash_kda::kPlanShared,
           .body = [&slice](Smem smem) { flash_kda::plan(slice.workspace.plan, smem); }});
    if (route.together()) {
      add_forward("forward", params, state_blocks + route.prep_blocks, state_blocks);
      return;
    }
    if (call.T > 0) add_forward("prep", params, route.prep_blocks, 0);
    if (route.segments > 1)
      add({.name = "part",
           .blocks = static_cast<std::uint32_t>(flash_kda::parts_of(items, route.segments)),
           .threads = flash_kda::Part::threads,
           .shared_bytes = flash_kda::Part::bytes,
           .body = [&slice, body = part_body(call)](Smem smem) { body(slice.params, smem); },
           .resident = 2});
    if (route.segments > 2)
      add({.name = "combine",
           .blocks = flash_kda::Combine::blocks * static_cast<std::uint32_t>(items),
           .threads = flash_kda::Combine::threads,
           .shared_bytes = flash_kda::Combine::bytes,
           .body = [&slice](Smem smem) { flash_kda::combine(slice.params, smem); }});
    slice.states.schedule.streams = route.streams * route.segments;
    add_forward("state", slice.states, state_blocks, state_blocks);
  };
  for (std::int32_t index = 0; index < flash_kda::slices_of(call); ++index) add_slice(index);
  const flash_kda::Params& params = slices.front().params;

  ForwardResult result;
  result.findings = device.run(kernels, options);
  result.steps = device.steps();
  const KdaResult outputs = placed.result();
  if (!options.plant && forward.cu_seqlens.empty() && forward.state_indices.empty()) {
    const cases::Reference reference = reference_of(forward, made.args);
    result.errors = cases::errors_of(outputs, reference);
    result.is_clean = placed.is_clean(reference);
  }
  const TensorView& o = outputs.o;
  for (std::int64_t b = 0; b < o.size(0); ++b)
    for (std::int64_t t = 0; t < o.size(1); ++t) {
      const std::uint16_t* const row = o.as<std::uint16_t>() + b * o.stride(0) + t * o.stride(1);
      result.o.insert(result.o.end(), row, row + o.size(2) * o.size(3));
    }
  if (const Tensor& state = outputs.final_state; state.defined())
    result.final_state.assign(state.as<float>(), state.as<float>() + state.numel());
  for (std::int32_t item = 0; item < items; ++item)
    for (std::int32_t index = 0; index + 1 < route.segments; ++index)
      result.forgotten.push_back(*flash_kda::forgotten_of(params, item, index) == 1);
  for (std::int32_t item = 0; forward.keep_packets && item < items; ++item) {
    result.packets.emplace_back();
    const std::int32_t chunks = flash_kda::item_of(params, item).chunks;
    for (std::int32_t c = 0; c < chunks; ++c) {
      const auto* const packet = reinterpret_cast<const std::byte*>(params.schedule.packets) +
                                 flash_kda::packet_of(params.schedule, item, c, c) * flash_kda::Packet::bytes;
      result.packets.back().insert(result.packets.back().end(), packet, packet + flash_kda::Packet::bytes);
    }
  }
  return result;
}

}  // namespace fla::emulation
