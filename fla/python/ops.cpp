#include "fla/ops/ops.h"

#include <stdexcept>
#include <string>

#include "fla/ops/recurrence/formula.h"
#include "fla/python/op.h"

namespace fla::python {

/// The functions of an op of the family.
template <class Args, RecurrenceResult (*Door)(const Args&), RecurrenceResult (*Chunk)(const Args&),
          RecurrenceResult (*Recurrent)(const Args&),
          RecurrenceGradients (*Backward)(const typename Args::Backward&),
          ReplayResult (*Replay)(const typename Args::Replay&),
          FoldResult (*Fold)(const typename Args::Fold&),
          RecurrenceSummary (*Summary)(const typename Args::Summary&)>
void add_functions(std::vector<OpFunction>& all) {
  constexpr const RecurrenceOp& op = Args::kOp;
  const std::string title(op.title);
  static const std::string formula = formula_of(op);
  static const std::string door = title + ": short sequences go to " + std::string(op.recurrent) +
                                  ", others to " + std::string(op.chunk) + ".",
                           chunk = title + " for prefill lengths: works on chunks of tokens.",
                           recurrent = title + " for decoding and short continuations: works token by token.",
                           backward = title + ": the gradients of " + std::string(op.chunk) + "'s inputs.",
                           replay = title +
                                    " for decoding: appends its tokens to rings instead of writing states.",
                           fold = title + ": brings states up to the last token of their rings.",
                           summary =
                               title +
                               ": what tokens do to a state, S_out = P S_in + R; with `do` to its gradient.";
  all.push_back(function_of<Args, Door>(op.name, op.name, door, formula, op.backward));
  all.push_back(function_of<Args, Chunk>(op.name, op.chunk, chunk, formula, op.backward));
  all.push_back(function_of<Args, Recurrent>(op.name, op.recurrent, recurrent, formula, op.backward));
  all.push_back(function_of<typename Args::Backward, Backward>(op.name, op.backward, backward, formula));
  all.push_back(function_of<typename Args::Replay, Replay>(op.name, op.replay, replay, formula));
  all.push_back(function_of<typename Args::Fold, Fold>(op.name, op.fold, fold, formula));
  all.push_back(function_of<typename Args::Summary, Summary>(op.name, op.summary, summary, formula));
}

/// The ops of the module. Names, order, documentation and checks of their arguments come from their tables.
const std::vector<OpFunction>& functions() {
  static const std::vector<OpFunction> all = [] {
    std::vector<OpFunction> made;
#define FLA_OP(NAME, ARGS)                                                             \
  add_functions<ARGS, &fla::NAME, &fla::chunk_##NAME, &fla::fused_recurrent_##NAME,    \
                &fla::chunk_##NAME##_backward, &fla::replay_##NAME, &fla::fold_##NAME, \
                &fla::NAME##_summary>(made);
    FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
    made.push_back(function_of<MergeArgs, &fla::merge>(
        "merge", "merge", "The state behind runs of tokens of which summaries are known.",
        "S <- P_c S + R_c"));
    made.push_back(function_of<ShortConvArgs, &fla::short_conv>(
        "short_conv", "short_conv",
        "Causal convolution along the tokens of a sequence, every channel by itself.",
        "o_t = bias + sum over j of weight_j * x_(t - W + 1 + j),  j from 0 to W - 1\n"
        "o_t = o_t * sigmoid(o_t)                                  with use_silu"));
    made.push_back(function_of<GatedRmsNormArgs, &fla::gated_rms_norm>(
        "gated_rms_norm", "gated_rms_norm", "The norm of a recurrence's outputs, times their gate.",
        "o = x * rsqrt(mean(x^2) + eps) * weight * g * sigmoid(g)"));
    const auto step_formula = [](const RecurrenceOp& op) {
      return "y_i = conv_bias_i + sum over j of conv_weight_ij * x_(t - W + 1 + j),i\n"
             "q_t, k_t, v_t = y * sigmoid(y)\n" +
             formula_of(op) +
             "out_t = o_t * rsqrt(mean(o_t^2) + norm_eps) * norm_weight * z_t * sigmoid(z_t)";
    };
    static const std::string kda_step = step_formula(KdaStepArgs::kOp.recurrence),
                             gated_delta_rule_step = step_formula(GatedDeltaRuleStepArgs::kOp.recurrence);
    made.push_back(function_of<KdaStepArgs, &fla::kda_step>(
        "kda_step", "kda_step",
        "A decoding step of a layer of Kimi Delta Attention: convolution, recurrence and gated norm.",
        kda_step));
    made.push_back(function_of<GatedDeltaRuleStepArgs, &fla::gated_delta_rule_step>(
        "gated_delta_rule_step", "gated_delta_rule_step",
        "A decoding step of a layer of Gated DeltaNet: convolution, recurrence and gated norm.",
        gated_delta_rule_step));
    return made;
  }();
  return all;
}

namespace {

int row_named(ArgumentTable table, std::string_view name) {
  const Argument* argument = find_argument(table, name);
  return argument == nullptr ? -1 : static_cast<int>(argument - table.data());
}

/// The required tensor of the output's shape, which it shares its dtype with.
int row_shaped_like(ArgumentTable table, const Argument& output) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].need == Need::required && table[i].shape.text == output.shape.text)
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

std::vector<ResultRule> result_rules(std::string_view op, ArgumentTable table) {
  std::vector<ResultRule> rules;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Argument& argument = table[i];
    if (!is_result(table, argument)) continue;
    const int gradient_of = row_named(table, argument.needs);
    rules.push_back({.output = i,
                     .asked_for = row_named(table, "output_" + std::string(argument.name)),
                     .like = gradient_of >= 0                ? gradient_of
                             : !argument.in_place_of.empty() ? row_named(table, argument.in_place_of)
                                                             : row_shaped_like(table, argument),
                     .gradient_of = gradient_of});
  }
  if (rules.size() > kMaxResults || table.size() > kMaxArguments)
    throw std::logic_error(std::string(op) + ": more arguments or results than a call has room for");
  return rules;
}

}  // namespace fla::python
