#include "tools/cases/op.h"

#include <algorithm>
#include <array>

#include "fla/core/errors.h"
#include "fla/ops/kda/kda.h"

namespace fla::cases {
namespace {

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

constexpr std::array<std::string_view, 2> kKdaFunctions{"chunk_kda", "fused_recurrent_kda"};
constexpr std::array<std::string_view, 2> kKdaResults{"o", "final_state"};

const KdaArgs& kda_args(const void* args) { return *static_cast<const KdaArgs*>(args); }

std::vector<NamedTensor> run_kda(std::string_view function, const void* args) {
  auto* const run = function == "chunk_kda"             ? &fla::chunk_kda
                    : function == "fused_recurrent_kda" ? &fla::fused_recurrent_kda
                                                        : &fla::kda;
  auto [o, final_state] = run(kda_args(args));
  std::vector<NamedTensor> results{{"o", o}};
  if (final_state.defined()) results.push_back({"final_state", final_state});
  return results;
}

Op kda_op() {
  return {.name = "kda",
          .arguments = KdaArgs::arguments(),
          .functions = kKdaFunctions,
          .results = kKdaResults,
          .make_args = []() -> std::shared_ptr<void> { return std::make_shared<KdaArgs>(); },
          .validate = [](const void* args) { validate_arguments(kda_args(args)); },
          .front_door = [](const void* args) { return front_door(kda_args(args)); },
          .explain = [](std::string_view function,
                        const void* args) { return explain("kda", function, kda_args(args)); },
          .run = run_kda};
}

std::span<const Op> all_ops() {
  static const std::array ops{kda_op()};
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

const Op& find_op(std::string_view name) {
  const std::span<const Op> ops = all_ops();
  const auto found = std::ranges::find(ops, name, &Op::name);
  if (found != ops.end()) return *found;
  std::vector<std::string_view> names;
  for (const Op& op : ops) names.push_back(op.name);
  throw InvalidArgument("op", "expected one of " + joined(names) + ", got '" + std::string(name) + "'");
}

}  // namespace fla::cases
