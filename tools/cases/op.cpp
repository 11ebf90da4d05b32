#include "tools/cases/op.h"

#include <algorithm>
#include <array>

#include "fla/core/errors.h"
#include "fla/ops/ops.h"
#include "tools/cases/with_op.h"

namespace fla::cases {
namespace {

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

constexpr std::array<std::string_view, 2> kRecurrenceResults{"o", "final_state"};

/// An op of the family.
template <class Args>
Op recurrence_op() {
  static constexpr std::array kFunctions{Args::kOp.chunk, Args::kOp.recurrent};
  return {.name = Args::kOp.name,
          .title = Args::kOp.name,
          .arguments = Args::arguments(),
          .functions = kFunctions,
          .results = kRecurrenceResults,
          .make_args = []() -> std::shared_ptr<void> { return std::make_shared<Args>(); },
          .validate = [](const void* args) { validate_arguments(*static_cast<const Args*>(args)); },
          .front_door = [](const void* args) { return front_door(*static_cast<const Args*>(args)); },
          .explain =
              [](std::string_view function, const void* args) {
                return explain(Args::kOp.name, function, *static_cast<const Args*>(args));
              },
          .run =
              [](std::string_view function, const void* args) {
                auto [o, final_state] = Functions<Args>::called(function)(*static_cast<const Args*>(args));
                std::vector<NamedTensor> results{{"o", o}};
                if (final_state.defined()) results.push_back({"final_state", final_state});
                return results;
              }};
}

/// The backward function of an op of the family.
template <BackwardArgs Args>
Op backward_op() {
  static constexpr std::array kFunctions{Args::kOp.backward};
  static const std::string title = std::string(Args::kOp.name) + "." + std::string(Args::kOp.backward);
  static const std::vector<std::string_view> results = [] {
    std::vector<std::string_view> names;
    for (const Argument& argument : Args::arguments()) {
      if (argument.kind == ArgumentKind::output) names.push_back(argument.name);
    }
    return names;
  }();
  return {.name = Args::kOp.name,
          .title = title,
          .arguments = Args::arguments(),
          .functions = kFunctions,
          .results = results,
          .make_args = []() -> std::shared_ptr<void> { return std::make_shared<Args>(); },
          .validate = [](const void* args) { validate_arguments(*static_cast<const Args*>(args)); },
          .front_door = [](const void*) { return Args::kOp.backward; },
          .explain =
              [](std::string_view function, const void* args) {
                return explain(Args::kOp.name, function, *static_cast<const Args*>(args));
              },
          .run =
              [](std::string_view, const void* args) {
                RecurrenceGradients gradients =
                    Functions<typename Args::Forward>::backward(*static_cast<const Args*>(args));
                std::vector<NamedTensor> found;
                visit_results(gradients, [&](std::string_view name, const Tensor& gradient) {
                  if (gradient.defined()) found.push_back({std::string(name), gradient});
                });
                return found;
              }};
}

/// One function of an op, apart from others that have arguments of their own; or the only one of its op.
template <class Args, typename Args::Result (*function)(const Args&)>
Op function_op(std::string_view op, std::string_view name, std::string_view title) {
  // A table calls memory for o `out`.
  static constexpr auto kResultName = [](std::string_view output) { return output == "out" ? "o" : output; };
  static const std::string_view op_name = op;
  static const std::array functions{name};
  static const std::vector<std::string_view> results = [] {
    std::vector<std::string_view> names;
    for (const Argument& argument : Args::arguments()) {
      if (is_result(Args::arguments(), argument)) names.push_back(kResultName(argument.name));
    }
    return names;
  }();
  return {
      .name = op,
      .title = title,
      .arguments = Args::arguments(),
      .functions = functions,
      .results = results,
      .make_args = []() -> std::shared_ptr<void> { return std::make_shared<Args>(); },
      .validate = [](const void* args) { validate_arguments(*static_cast<const Args*>(args)); },
      .front_door = [](const void*) { return functions[0]; },
      .explain = [](std::string_view asked,
                    const void* args) { return explain(op_name, asked, *static_cast<const Args*>(args)); },
      .run =
          [](std::string_view, const void* args) {
            typename Args::Result result = function(*static_cast<const Args*>(args));
            std::vector<NamedTensor> found;
            visit_results(result, [&](std::string_view output, const Tensor& tensor) {
              if (tensor.defined()) found.push_back({std::string(kResultName(output)), tensor});
            });
            return found;
          }};
}

constexpr std::array<std::string_view, 3> kStages{"l2_norm", "gate", "solve_tril"};
constexpr std::array<std::string_view, 3> kStageTitles{"common.l2_norm", "common.gate", "common.solve_tril"};
constexpr std::array<std::string_view, 1> kStageResults{"out"};

/// A function of op common, which has arguments of its own.
template <class Args, StageResult (*stage)(const Args&), std::size_t index>
Op stage_op() {
  return {.name = "common",
          .title = kStageTitles[index],
          .arguments = Args::arguments(),
          .functions = std::span(kStages).subspan(index, 1),
          .results = kStageResults,
          .make_args = []() -> std::shared_ptr<void> { return std::make_shared<Args>(); },
          .validate = [](const void* args) { validate_arguments(*static_cast<const Args*>(args)); },
          .front_door = [](const void*) { return kStages[index]; },
          .explain =
              [](std::string_view function, const void* args) {
                return explain("common", function, *static_cast<const Args*>(args));
              },
          .run =
              [](std::string_view, const void* args) {
                return std::vector<NamedTensor>{{"out", stage(*static_cast<const Args*>(args)).out}};
              }};
}

bool is_backward(const Op& op) { return op.title.ends_with("_backward"); }

std::span<const Op> all_ops() {
#define FLA_OP(NAME, ARGS)                                                                                   \
  recurrence_op<ARGS>(), backward_op<ARGS::Backward>(),                                                      \
      function_op<ARGS::Summary, &fla::NAME##_summary>(#NAME, #NAME "_summary", #NAME "." #NAME "_summary"), \
      function_op<ARGS::Replay, &fla::replay_##NAME>(#NAME, "replay_" #NAME, #NAME ".replay_" #NAME),        \
      function_op<ARGS::Fold, &fla::fold_##NAME>(#NAME, "fold_" #NAME, #NAME ".fold_" #NAME),
#define FLA_LAYER_OP(NAME, ARGS) function_op<ARGS, &fla::NAME>(#NAME, #NAME, #NAME),
  static const std::array ops{
      FLA_RECURRENCE_OPS(FLA_OP) FLA_LAYER_OPS(FLA_LAYER_OP) FLA_STEP_OPS(FLA_LAYER_OP)
          FLA_LAYER_OP(merge, MergeArgs) stage_op<L2NormArgs, &common::l2_norm, 0>(),
      stage_op<GateArgs, &common::gate, 1>(), stage_op<SolveTrilArgs, &common::solve_tril, 2>()};
#undef FLA_LAYER_OP
#undef FLA_OP
  return ops;
}

}  // namespace

std::string_view Op::function_or_front_door(std::string_view function, const void* args) const {
  if (function.empty() || function == name) return front_door(args);
  const auto found = std::ranges::find(functions, function);
  if (found == functions.end()) {
    throw InvalidArgument("function",
                          "expected one of " + joined(functions) + ", got '" + std::string(function) + "'");
  }
  return *found;
}

const Op& find_op(std::string_view title) {
  const std::span<const Op> ops = all_ops();
  const auto found = std::ranges::find(ops, title, &Op::title);
  if (found != ops.end()) return *found;
  std::vector<std::string_view> titles;
  for (const Op& op : ops) {
    if (op.title == op.name || op.name == "common") titles.push_back(op.title);
  }
  throw InvalidArgument("op", "expected one of " + joined(titles) + ", got '" + std::string(title) + "'");
}

const Op& find_op(std::string_view name, std::string_view function) {
  const std::string title = std::string(name) + "." + std::string(function);
  const auto found = std::ranges::find(all_ops(), title, &Op::title);
  return found != all_ops().end() ? *found : find_op(name);
}

const Op* backward_of(const Op& op) {
  for (const Op& other : all_ops()) {
    if (other.name == op.name && is_backward(other)) return &other;
  }
  return nullptr;
}

}  // namespace fla::cases
