#include <algorithm>
#include <array>

#include "fla/core/copy_arguments.h"
#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/distributed/ops.h"
#include "fla/distributed/states.h"

namespace fla::distributed {
namespace {

/// A summary as a block of floats: R, then P.
struct Block {
  std::int64_t HV, K, V;
  bool diagonal, v_first;

  template <class Args>
  explicit Block(const Args& args)
      : HV(args.v.size(2)),
        K(args.q.size(3)),
        V(args.v.size(3)),
        diagonal(Args::kOp.rule == Rule::additive),
        v_first(args.state_v_first) {}

  std::array<std::int64_t, 3> state_shape() const { return {HV, v_first ? V : K, v_first ? K : V}; }
  std::int64_t R_size() const { return HV * K * V; }
  std::int64_t size() const { return R_size() + HV * K * (diagonal ? 1 : K); }

  /// Those of `count` blocks, `step` floats from one to the next, each of one sequence, as merge takes them.
  TensorView R(const TensorView& block, std::int64_t count = 1, std::int64_t step = 0) const {
    const auto [heads, rows, columns] = state_shape();
    return {block.data(),
            DType::f32,
            {count, 1, heads, rows, columns},
            {step, R_size(), rows * columns, columns, 1},
            block.device()};
  }
  TensorView P(const TensorView& block, std::int64_t count = 1, std::int64_t step = 0) const {
    float* const data = block.as<float>() + R_size();
    if (diagonal) return {data, DType::f32, {count, 1, HV, K}, {step, HV * K, K, 1}, block.device()};
    return {data, DType::f32, {count, 1, HV, K, K}, {step, HV * K * K, K * K, K, 1}, block.device()};
  }
};

void check_state(std::string_view op, std::string_view argument, const TensorView& state) {
  if (!state.defined() || state.dtype() == DType::f32) return;
  throw InvalidArgument(argument, "expected dtype f32, got " + std::string(name_of(state.dtype())), op);
}

/// The call with the sequences that this rank has. Everything that may be wrong with it is found here, before
/// ranks wait for each other.
template <class Args>
Args over_pieces(const Context& context, Args args) {
  const std::string_view op = Args::kOp.name;
  check_absent(op, "cu_seqlens", args.cu_seqlens);
  if constexpr (requires { args.state_indices; }) check_absent(op, "state_indices", args.state_indices);
  check_tokens(context, op, "q", args.q);
  check_state(op, "initial_state", args.initial_state);
  if constexpr (requires { args.dht; }) check_state(op, "dht", args.dht);
  args.cu_seqlens = context.cu_seqlens();
  validate_arguments(args);
  validate_arguments(arguments_like<typename Args::Forward::Summary>(args));
  return args;
}

/// The tokens of one piece of a summary call, without the states of the call.
template <class Summary>
Summary piece_of(Summary args, const Piece& piece) {
  args.cu_seqlens = args.initial_state = args.dht = {};
  for (const Argument& argument : Summary::arguments()) {
    if (!argument.is_tensor() || !argument.tensor(&args).defined()) continue;
    const ShapeRule& rule = argument.shape.first;
    if (rule.rank < 2 || rule.dims[1].axis != Axis::T) continue;
    TensorView& tensor = argument.tensor(&args);
    tensor = tensor.slice(1, piece.first, piece.count());
  }
  return args;
}

TensorView state_of(const TensorView& states, std::size_t piece) {
  return states.slice(0, static_cast<std::int64_t>(piece), 1);
}

/// Without its first axis, of one.
TensorView only(const TensorView& tensor) {
  return {tensor.data(), tensor.dtype(), tensor.shape().subspan(1), tensor.strides().subspan(1),
          tensor.device()};
}

/// The summary of a piece, in its block. A P that meets zeros alone is not computed.
template <class Summary>
void sum_up(Summary own, RecurrenceSummary (*summary)(const Summary&), bool with_P, const Block& block,
            const TensorView& to) {
  own.R = only(block.R(to));
  if (with_P) {
    own.P = only(block.P(to));
  } else {
    clear(block.P(to), own.stream);
  }
  (void)summary(own);
}

/// state = P state + R, of one summary after another. Those as far apart as the first two are one call.
void apply(const Block& block, std::span<const TensorView> summaries, const TensorView& state, bool v_first,
           Stream stream) {
  const auto step_to = [&](std::size_t i) { return summaries[i].as<float>() - summaries[i - 1].as<float>(); };
  for (std::size_t begin = 0, end = 0; begin < summaries.size(); begin = end) {
    end = begin + 1;
    const std::int64_t step = end < summaries.size() ? step_to(end) : 0;
    while (end < summaries.size() && step_to(end) == step) ++end;
    const auto count = static_cast<std::int64_t>(end - begin);
    (void)merge({.R = block.R(summaries[begin], count, step),
                 .P = block.P(summaries[begin], count, step),
                 .initial_state = state,
                 .state_v_first = v_first,
                 .final_state = state,
                 .stream = stream});
  }
}

template <class Args>
Result chunk(Context& context, const Args& given, RecurrenceSummary (*summary)(const typename Args::Summary&),
             RecurrenceResult (*run)(const Args&)) {
  Args args = over_pieces(context, given);
  const Block block(args);
  const std::span<const Piece> pieces = context.pieces();
  const auto inputs = arguments_like<typename Args::Summary>(args);
  const auto fill = [&](std::size_t i, const TensorView& to) {
    auto own = piece_of(inputs, pieces[i]);
    if (pieces[i].begins && args.initial_state.defined()) own.initial_state = state_of(args.initial_state, i);
    sum_up(own, summary, !pieces[i].begins, block, to);
  };
  const auto summaries = context.exchange(block.size(), goes_out, args.q.device(), args.stream, fill);

  Tensor states;
  if (args.initial_state.defined() || std::ranges::any_of(pieces, comes_in)) {
    states = zero_states(context, block.state_shape(), args.q.device(), args.stream);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const TensorView state = state_of(states, i);
      if (pieces[i].begins) {
        if (args.initial_state.defined()) copy_state(state_of(args.initial_state, i), state, args.stream);
        continue;
      }
      const Neighbours of = neighbours_of(context, pieces[i]);
      apply(block, std::span(summaries.of).subspan(of.first, of.own - of.first), state, args.state_v_first,
            args.stream);
    }
    args.initial_state = states;
  }
  RecurrenceResult result = run(args);
  return {result.o, result.final_state, states};
}

template <class Args>
RecurrenceGradients backward(Context& context, const typename Args::Backward& given,
                             RecurrenceSummary (*summary)(const typename Args::Summary&),
                             RecurrenceGradients (*run)(const typename Args::Backward&)) {
  typename Args::Backward args = over_pieces(context, given);
  const Block block(args);
  const std::span<const Piece> pieces = context.pieces();
  const auto inputs = arguments_like<typename Args::Summary>(args);
  const auto fill = [&](std::size_t i, const TensorView& to) {
    auto own = piece_of(inputs, pieces[i]);
    if (pieces[i].ends && args.dht.defined()) own.dht = state_of(args.dht, i);
    sum_up(own, summary, !pieces[i].ends, block, to);
  };
  const auto summaries = context.exchange(block.size(), comes_in, args.q.device(), args.stream, fill);

  Tensor states;
  if (args.dht.defined() || std::ranges::any_of(pieces, goes_out)) {
    states = zero_states(context, block.state_shape(), args.q.device(), args.stream);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const TensorView state = state_of(states, i);
      if (pieces[i].ends) {
        if (args.dht.defined()) copy_state(state_of(args.dht, i), state, args.stream);
        continue;
      }
      const Neighbours of = neighbours_of(context, pieces[i]);
      const auto behind = std::span(summaries.of).subspan(of.own + 1, of.end - of.own - 1);
      apply(block, std::vector(behind.rbegin(), behind.rend()), state, args.state_v_first, args.stream);
    }
    args.dht = states;
  }
  return run(args);
}

}  // namespace

#define FLA_OP(NAME, ARGS)                                                                     \
  Result chunk_##NAME(Context& context, const ARGS& args) {                                    \
    return chunk<ARGS>(context, args, &fla::NAME##_summary, &fla::chunk_##NAME);               \
  }                                                                                            \
  RecurrenceGradients chunk_##NAME##_backward(Context& context, const ARGS::Backward& args) {  \
    return backward<ARGS>(context, args, &fla::NAME##_summary, &fla::chunk_##NAME##_backward); \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::distributed
