#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/core/workspace.h"
#include "fla/ops/common/kernel_views.h"
#include "fla/ops/recurrence/kinds.h"

/// The arguments of the family's ops, whichever op it is: what recurrence.h's templates hand to the library.
namespace fla {

struct RecurrenceResult {
  Tensor o;            ///< [B, T, HV, V], dtype of v
  Tensor final_state;  ///< [P, HV, K, V] (or as state_v_first says); empty unless it was asked for
};

template <class Visitor>
void visit_results(RecurrenceResult& result, const Visitor& visitor) {
  visitor("out", result.o);
  visitor("final_state", result.final_state);
}

struct ReplayResult {
  Tensor o;  ///< [B, T, HV, V], dtype of v
};

template <class Visitor>
void visit_results(ReplayResult& result, const Visitor& visitor) {
  visitor("out", result.o);
}

/// Folds write the caller's pool.
struct FoldResult {};

template <class Visitor>
void visit_results(FoldResult&, const Visitor&) {}

/// The tensors that ops of the family may take in, and that have gradients: INPUT(name).
#define FLA_RECURRENCE_INPUTS(INPUT) \
  INPUT(q)                           \
  INPUT(k)                           \
  INPUT(v)                           \
  INPUT(g)                           \
  INPUT(g_gamma)                     \
  INPUT(beta)                        \
  INPUT(a)                           \
  INPUT(b)                           \
  INPUT(initial_state)               \
  INPUT(A_log)                       \
  INPUT(dt_bias)

/// The gradients of the inputs that a call has, each in its input's shape and dtype; empty where the op or
/// the call does not have the input, or the gradient was not asked for.
struct RecurrenceGradients {
#define FLA_INPUT(name) Tensor d##name{};
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
};

template <class Visitor>
void visit_results(RecurrenceGradients& result, const Visitor& visitor) {
#define FLA_INPUT(name) visitor("d" #name, result.d##name);
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
}

/// What tokens do to a state, whichever they meet: S_out = P S_in + R. recurrence.h has the rest.
struct RecurrenceSummary {
  Tensor R;  ///< [N, HV, K, V], or as state_v_first says
  Tensor P;  ///< [N, HV, K, K], of additive ops the diagonal alone, [N, HV, K]; empty unless asked for
};

template <class Visitor>
void visit_results(RecurrenceSummary& result, const Visitor& visitor) {
  visitor("R", result.R);
  visitor("P", result.P);
}

/// What an op of the family is. Its argument structs have one as kOp.
struct RecurrenceOp {
  std::string_view name;                                               ///< of the op and of its front door
  std::string_view title;                                              ///< what people call it
  std::string_view chunk, recurrent, backward, replay, fold, summary;  ///< its functions
  GateKind gate;  ///< a call that gives g_gamma instead of g has one a head
  Rule rule;
  HeadGate head_gate = HeadGate::given;
};

template <class Args, class Result>
concept ArgsWithResult =
    std::same_as<decltype(Args::kOp), const RecurrenceOp> && std::same_as<typename Args::Result, Result>;

/// The struct of an op's functions that go forward …
template <class Args>
concept RecurrenceArgs = ArgsWithResult<Args, RecurrenceResult>;
/// … and of its backward function.
template <class Args>
concept BackwardArgs = ArgsWithResult<Args, RecurrenceGradients>;
/// … and of the function that sums up what tokens do to a state.
template <class Args>
concept SummaryArgs = ArgsWithResult<Args, RecurrenceSummary>;

/// The structs of its steps over rings, and of what folds those.
template <class Args>
concept ReplayArgs = ArgsWithResult<Args, ReplayResult>;
template <class Args>
concept FoldArgs = ArgsWithResult<Args, FoldResult>;

/// Where a sequence's state is read and written; read < 0: the sequence is skipped, write < 0: no state is
/// written.
struct StateSlots {
  std::int64_t read, write;
};

namespace recurrence {

/// A call's arguments, those of a backward call as well. Those that its op or function does not have are
/// absent.
struct Arguments {
  const RecurrenceOp& op;
  ArgumentTable table;
  const void* args;  ///< the op's struct
  const TensorView &q, &k, &v, &g, &g_gamma, &beta, &a, &b, &initial_state, &A_log, &dt_bias;
  const TensorView &cu_seqlens, &state_indices, &state_write_indices, &checkpoint_indices,
      &num_accepted_tokens;
  const TensorView &out, &final_state, &checkpoints;
  std::optional<float> scale, lower_bound;
  std::optional<std::int64_t> layer_idx, num_layers, checkpoint_every;
  bool output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel,
      allow_neg_eigval, safe_gate, state_v_first, normalize;
  Stream stream;
  Workspace workspace;
};

inline const TensorView kAbsent{};

#define FLA_OR(name, otherwise)              \
  [&]() -> decltype(auto) {                  \
    if constexpr (requires { args.name; }) { \
      return (args.name);                    \
    } else {                                 \
      return (otherwise);                    \
    }                                        \
  }()
/// Holds as long as `args` does.
template <class Args>
requires RecurrenceArgs<Args> || fla::BackwardArgs<Args> || fla::ReplayArgs<Args> || fla::FoldArgs<Args> ||
    fla::SummaryArgs<Args>
        Arguments arguments_of(const Args& args) {
  return {.op = Args::kOp,
          .table = Args::arguments(),
          .args = &args,
          .q = FLA_OR(q, kAbsent),
          .k = FLA_OR(k, kAbsent),
          .v = FLA_OR(v, kAbsent),
          .g = FLA_OR(g, kAbsent),
          .g_gamma = FLA_OR(g_gamma, kAbsent),
          .beta = FLA_OR(beta, kAbsent),
          .a = FLA_OR(a, kAbsent),
          .b = FLA_OR(b, kAbsent),
          .initial_state = FLA_OR(initial_state, kAbsent),
          .A_log = FLA_OR(A_log, kAbsent),
          .dt_bias = FLA_OR(dt_bias, kAbsent),
          .cu_seqlens = FLA_OR(cu_seqlens, kAbsent),
          .state_indices = FLA_OR(state_indices, kAbsent),
          .state_write_indices = FLA_OR(state_write_indices, kAbsent),
          .checkpoint_indices = FLA_OR(checkpoint_indices, kAbsent),
          .num_accepted_tokens = FLA_OR(num_accepted_tokens, kAbsent),
          .out = FLA_OR(out, kAbsent),
          .final_state = FLA_OR(final_state, kAbsent),
          .checkpoints = FLA_OR(checkpoints, kAbsent),
          .scale = args.scale,
          .lower_bound = FLA_OR(lower_bound, std::optional<float>()),
          .layer_idx = FLA_OR(layer_idx, std::optional<std::int64_t>()),
          .num_layers = FLA_OR(num_layers, std::optional<std::int64_t>()),
          .checkpoint_every = FLA_OR(checkpoint_every, std::optional<std::int64_t>()),
          .output_final_state = FLA_OR(output_final_state, false),
          .use_qk_l2norm_in_kernel = FLA_OR(use_qk_l2norm_in_kernel, false),
          .use_gate_in_kernel = FLA_OR(use_gate_in_kernel, false),
          .use_beta_sigmoid_in_kernel = FLA_OR(use_beta_sigmoid_in_kernel, false),
          .allow_neg_eigval = FLA_OR(allow_neg_eigval, false),
          .safe_gate = FLA_OR(safe_gate, false),
          .state_v_first = args.state_v_first,
          .normalize = FLA_OR(normalize, false),
          .stream = args.stream,
          .workspace = args.workspace};
}

/// Those of a step over rings, or of a fold, which has no tokens.
struct ReplayArguments {
  Arguments call;  ///< without initial_state and final_state
  const TensorView &state, &ring_k, &ring_u, &ring_g, &ring_b, &ring_w, &ring_begin, &ring_end;
  bool folds;  ///< every ring
};
template <class Args>
requires fla::ReplayArgs<Args> || fla::FoldArgs<Args> ReplayArguments replay_arguments_of(const Args& args) {
  return {.call = arguments_of(args),
          .state = args.state,
          .ring_k = args.ring_k,
          .ring_u = args.ring_u,
          .ring_g = FLA_OR(ring_g, kAbsent),
          .ring_b = FLA_OR(ring_b, kAbsent),
          .ring_w = FLA_OR(ring_w, kAbsent),
          .ring_begin = args.ring_begin,
          .ring_end = args.ring_end,
          .folds = fla::FoldArgs<Args>};
}

/// Those of a backward call.
struct BackwardArguments {
  Arguments call;
  const TensorView &do_, &dht;
#define FLA_INPUT(name) const TensorView& d##name;
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
};
template <fla::BackwardArgs Args>
BackwardArguments backward_arguments_of(const Args& args) {
  return {.call = arguments_of(args),
          .do_ = args.do_,
          .dht = args.dht,
#define FLA_INPUT(name) .d##name = FLA_OR(d##name, kAbsent),
          FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  };
}

/// Those of a summary call.
struct SummaryArguments {
  Arguments call;
  const TensorView &do_, &dht, &R, &P;
  bool output_P;
};
template <fla::SummaryArgs Args>
SummaryArguments summary_arguments_of(const Args& args) {
  return {arguments_of(args), args.do_, args.dht, args.R, args.P, args.output_P};
}
#undef FLA_OR

/// What recurrence.h says of the functions without `recurrence::`.
FLA_API void validate(const Arguments& args);
FLA_API void validate(const BackwardArguments& args);
FLA_API void validate(const ReplayArguments& args);
FLA_API void validate(const SummaryArguments& args);
FLA_API RecurrenceResult make_result(const Arguments& args);
FLA_API RecurrenceGradients make_result(const BackwardArguments& args);
FLA_API ReplayResult make_result(const ReplayArguments& args);
FLA_API RecurrenceSummary make_result(const SummaryArguments& args);
/// Throws InvalidArgument unless the options of the gate go together; a part of validate().
FLA_API void check_gate(const Arguments& args);
FLA_API Sequence tokens_of(const Arguments& args, std::int64_t n);
FLA_API StateSlots slots_of(const Arguments& args, std::int64_t n);

/// Bytes that the original kernels ask for at most.
FLA_API std::size_t original_workspace(const Arguments& args);
FLA_API std::size_t original_workspace(const BackwardArguments& args);
FLA_API std::size_t original_workspace(const ReplayArguments& args);
FLA_API std::size_t original_workspace(const SummaryArguments& args);

}  // namespace recurrence
}  // namespace fla
