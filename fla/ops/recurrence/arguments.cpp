#include "fla/ops/recurrence/arguments.h"

#include <array>
#include <optional>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/ops/common/sequence_indices.h"
#include "fla/ops/common/views_of.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::recurrence {
namespace {

constexpr std::int64_t kMaxChannels = 256;

/// Where sizes are read off: what keys and values are called.
struct SizeNames {
  const char *keys = "q", *values = "v";
};

void check_sizes(const Arguments& args, const AxisSizes& sizes, const SizeNames& names = {}) {
  const auto channels = [](const char* argument, const char* axis, std::int64_t size) {
    if (size < 1 || size > kMaxChannels) {
      throw InvalidArgument(argument,
                            "expected " + std::string(axis) + " from 1 to 256, got " + std::to_string(size));
    }
  };
  channels(names.keys, "K", sizes[Axis::K]);
  channels(names.values, "V", sizes[Axis::V]);
  if (sizes[Axis::H] < 1) throw InvalidArgument(names.keys, "expected at least one head, got H=0");
  if (sizes[Axis::HV] < 1 || sizes[Axis::HV] % sizes[Axis::H] != 0) {
    throw InvalidArgument(names.values,
                          "expected HV to be a multiple of H=" + std::to_string(sizes[Axis::H]) +
                              ", got HV=" + std::to_string(sizes[Axis::HV]));
  }
  if (args.out.defined() && args.out.dtype() != args.v.dtype()) {
    throw InvalidArgument("out", "expected dtype " + std::string(name_of(args.v.dtype())) + " like v, got " +
                                     std::string(name_of(args.out.dtype())));
  }
}

}  // namespace

void check_gate(const Arguments& args) {
  if (args.lower_bound) {
    const float bound = *args.lower_bound;
    if (args.safe_gate && args.use_gate_in_kernel && !(bound >= -5 && bound < 0)) {
      throw InvalidArgument("lower_bound",
                            "expected a value in [-5, 0) with safe_gate, got " + std::to_string(bound));
    }
    if (!(bound < 0))
      throw InvalidArgument("lower_bound", "expected a negative value, got " + std::to_string(bound));
  } else if (args.use_gate_in_kernel) {
    if (args.safe_gate)
      throw InvalidArgument("lower_bound", "expected a value in [-5, 0) with safe_gate, got none");
    if (!args.A_log.defined()) {
      throw InvalidArgument(
          "A_log", "expected a tensor of shape [HV] with use_gate_in_kernel and no lower_bound, got none");
    }
  }
}

namespace {

void check_checkpoints(const Arguments& args) {
  if (!args.checkpoint_every) return;
  const std::int64_t every = *args.checkpoint_every;
  if (every < 1)
    throw InvalidArgument("checkpoint_every", "expected at least 1, got " + std::to_string(every));
  const bool by_index = args.checkpoint_indices.defined();
  if (by_index == args.checkpoints.defined()) {
    throw InvalidArgument("checkpoints", by_index ? "expected none with checkpoint_indices, got both"
                                                  : "expected a tensor, or checkpoint_indices in its place, "
                                                    "with checkpoint_every, got neither");
  }
  if (args.num_accepted_tokens.defined() && every != 1) {
    throw InvalidArgument("checkpoint_every",
                          "expected 1 with num_accepted_tokens, got " + std::to_string(every));
  }
}

void check_layer(const Arguments& args) {
  const auto wrong = [](const char* argument, const std::string& expected, std::optional<std::int64_t> got) {
    throw InvalidArgument(
        argument, "expected a whole number " + expected + ", got " + (got ? std::to_string(*got) : "none"));
  };
  if (!args.num_layers || *args.num_layers < 1) wrong("num_layers", "of at least 1", args.num_layers);
  if (!args.layer_idx || *args.layer_idx < 0 || *args.layer_idx >= *args.num_layers)
    wrong("layer_idx", "from 0 to " + std::to_string(*args.num_layers - 1), args.layer_idx);
}

/// A ring holds what it is given, bit by bit.
void check_ring_dtype(std::string_view name, const TensorView& ring, std::string_view of,
                      const TensorView& tokens) {
  if (!ring.defined() || !tokens.defined() || ring.dtype() == tokens.dtype()) return;
  throw InvalidArgument(name, "expected dtype " + std::string(name_of(tokens.dtype())) + " like " +
                                  std::string(of) + ", got " + std::string(name_of(ring.dtype())));
}

void check_rings(const ReplayArguments& args, const AxisSizes& sizes) {
  constexpr std::int64_t kLeast = 8, kMost = 32;
  const std::int64_t L = sizes[Axis::L], T = sizes[Axis::T];
  if (L < kLeast || L > kMost)
    throw InvalidArgument("ring_k", "expected rings of 8 to 32 tokens, got L=" + std::to_string(L));
  if (!args.folds && (T < 1 || T > L / 2)) {
    throw InvalidArgument(
        "q", "expected T from 1 to half of L=" + std::to_string(L) + ", got T=" + std::to_string(T));
  }
  check_ring_dtype("ring_k", args.ring_k, "k", args.call.k);
  check_ring_dtype("ring_g", args.ring_g, "g", args.call.g);
  check_ring_dtype("ring_b", args.ring_b, "b", args.call.b);
  // An op whose gates are either of tokens or of heads.
  if (find_argument(args.call.table, "g_gamma") == nullptr) return;
  if (args.ring_g.defined() && args.call.g_gamma.defined())
    throw InvalidArgument("ring_g", "expected none with g_gamma, got both");
  if (!args.ring_g.defined() && !args.call.g_gamma.defined()) {
    throw InvalidArgument("ring_g", args.folds
                                        ? "expected a tensor of shape [P, L, HV], or g_gamma, got neither"
                                        : "expected a tensor of shape [P, L, HV] with g, got none");
  }
}

/// A gradient is like its input in all that tables do not say.
void check_gradient(std::string_view name, const TensorView& gradient, std::string_view of,
                    const TensorView& input) {
  if (!gradient.defined()) return;
  if (gradient.dtype() != input.dtype()) {
    throw InvalidArgument(name, "expected dtype " + std::string(name_of(input.dtype())) + " like " +
                                    std::string(of) + ", got " + std::string(name_of(gradient.dtype())));
  }
  if (gradient.rank() != input.rank()) {
    throw InvalidArgument(name, "expected shape " + shape_text(input.shape()) + " like " + std::string(of) +
                                    ", got " + shape_text(gradient.shape()));
  }
}

bool has_tokens(const Arguments& args, std::string_view name) {
  const Argument* argument = find_argument(args.table, name);
  return argument != nullptr && argument->shape.first.rank > 1 &&
         argument->shape.first.dims[1].axis == Axis::T;
}

}  // namespace

void validate(const Arguments& args) {
  naming_op(args.op.name, [&] {
    const AxisSizes sizes = check_arguments(args.table, args.args);
    check_sizes(args, sizes);
    check_gate(args);
    check_checkpoints(args);
    if (args.op.head_gate == HeadGate::slopes) check_layer(args);
    common::check_indices({.cu_seqlens = args.cu_seqlens,
                           .state_indices = args.state_indices,
                           .state_write_indices = args.state_write_indices,
                           .initial_state = args.initial_state,
                           .final_state = args.final_state,
                           .output_final_state = args.output_final_state,
                           .device = args.q.device(),
                           .stream = args.stream,
                           .checkpoint_indices = args.checkpoint_indices,
                           .num_accepted_tokens = args.num_accepted_tokens},
                          sizes);
  });
}

void validate(const BackwardArguments& args) {
  validate(args.call);
  naming_op(args.call.op.name, [&] {
#define FLA_INPUT(name) check_gradient("d" #name, args.d##name, #name, args.call.name);
    FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  });
}

void validate(const ReplayArguments& args) {
  const Arguments& call = args.call;
  naming_op(call.op.name, [&] {
    const AxisSizes sizes = check_arguments(call.table, call.args);
    check_sizes(call, sizes, args.folds ? SizeNames{"ring_k", "ring_u"} : SizeNames{});
    check_rings(args, sizes);
    check_gate(call);
    if (call.op.head_gate == HeadGate::slopes) check_layer(call);
    common::check_indices({.cu_seqlens = common::kNoIndex,
                           .state_indices = call.state_indices,
                           .state_write_indices = common::kNoIndex,
                           .initial_state = args.state,
                           .final_state = args.state,
                           .output_final_state = false,
                           .device = args.state.device(),
                           .stream = call.stream,
                           .ring_begin = args.ring_begin,
                           .ring_end = args.ring_end},
                          sizes);
  });
}

void validate(const SummaryArguments& args) {
  validate(args.call);
  naming_op(args.call.op.name, [&] {
    if (args.call.normalize)
      throw InvalidArgument("normalize", "expected false: its sums go beyond the state, got true");
    if (args.dht.defined() && !args.do_.defined())
      throw InvalidArgument("do", "expected a tensor of the shape of v with dht, got none");
  });
}

Sequence tokens_of(const Arguments& args, std::int64_t n) {
  if (!args.cu_seqlens.defined()) return {n, 0, args.q.size(1)};
  const common::Indices starts = common::indices_of(args.cu_seqlens);
  return {0, starts[n], starts[n + 1]};
}

StateSlots slots_of(const Arguments& args, std::int64_t n) {
  // Indices on the host have been checked.
  const RecurrenceCall call{.final_state = {.slots = common::kAnySlot},
                            .read_slots = common::indices_of(args.state_indices),
                            .write_slots = common::indices_of(args.state_write_indices)};
  const auto [read, write] = fla::slots_of(call, extras_of(args).accepted, n);
  return {.read = read, .write = read < 0 ? read : write};
}

RecurrenceResult make_result(const Arguments& args) {
  RecurrenceResult result;
  result.o = args.out.defined() ? Tensor::over(args.out)
                                : empty_on(args.v.shape(), args.v.dtype(), args.v.device(), args.stream);
  common::clear_behind_sequences(result.o, args.cu_seqlens, args.stream);
  if (args.final_state.defined()) {
    result.final_state = Tensor::over(args.final_state);
  } else if (args.output_final_state) {
    const std::int64_t K = args.q.size(3), V = args.v.size(3),
                       N = args.cu_seqlens.defined() ? args.cu_seqlens.size(0) - 1 : args.q.size(0);
    const DType dtype = args.initial_state.defined() ? args.initial_state.dtype() : DType::f32;
    result.final_state =
        empty_on(std::array{N, args.v.size(2), args.state_v_first ? V : K, args.state_v_first ? K : V}, dtype,
                 args.v.device(), args.stream);
  }
  return result;
}

ReplayResult make_result(const ReplayArguments& args) {
  if (args.folds) return {};
  const Arguments& call = args.call;
  return {call.out.defined() ? Tensor::over(call.out)
                             : empty_on(call.v.shape(), call.v.dtype(), call.v.device(), call.stream)};
}

RecurrenceGradients make_result(const BackwardArguments& args) {
#define FLA_INPUT(name) || args.d##name.defined()
  const bool some_given = false FLA_RECURRENCE_INPUTS(FLA_INPUT);
#undef FLA_INPUT
  const auto gradient = [&](const TensorView& given, const TensorView& input) -> Tensor {
    if (given.defined()) return Tensor::over(given);
    if (some_given || !input.defined()) return {};
    return empty_on(input.shape(), input.dtype(), input.device(), args.call.stream);
  };
  RecurrenceGradients result;
#define FLA_INPUT(name)                                         \
  result.d##name = gradient(args.d##name, args.call.name);      \
  if (result.d##name.defined() && has_tokens(args.call, #name)) \
    common::clear_behind_sequences(result.d##name, args.call.cu_seqlens, args.call.stream);
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  return result;
}

RecurrenceSummary make_result(const SummaryArguments& args) {
  const Arguments& call = args.call;
  const std::int64_t K = call.q.size(3), V = call.v.size(3), HV = call.v.size(2),
                     N = call.cu_seqlens.defined() ? call.cu_seqlens.size(0) - 1 : call.q.size(0);
  const auto made = [&](const TensorView& given, std::span<const std::int64_t> shape) {
    return given.defined() ? Tensor::over(given) : empty_on(shape, DType::f32, call.q.device(), call.stream);
  };
  RecurrenceSummary result;
  result.R = made(args.R, std::array{N, HV, call.state_v_first ? V : K, call.state_v_first ? K : V});
  if (!args.output_P && !args.P.defined()) return result;
  const std::array square{N, HV, K, K};
  result.P = made(args.P, std::span(square).first(call.op.rule == Rule::additive ? 3 : 4));
  return result;
}

}  // namespace fla::recurrence
