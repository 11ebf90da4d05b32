#include <stdexcept>
#include <string>

#include "fla/ops/kda/kda.h"
#include "fla/python/op.h"

namespace fla::python {

/// The ops of the module, one line per function. Names, order, documentation and checks of their arguments
/// come from the op's table.
const std::vector<OpFunction>& functions() {
  static const std::vector<OpFunction> all{
      function_of<KdaArgs, &fla::kda>(
          "kda", "kda",
          "Kimi Delta Attention: short sequences go to fused_recurrent_kda, others to chunk_kda."),
      function_of<KdaArgs, &fla::chunk_kda>(
          "kda", "chunk_kda", "Kimi Delta Attention for prefill lengths: works on chunks of tokens."),
      function_of<KdaArgs, &fla::fused_recurrent_kda>(
          "kda", "fused_recurrent_kda",
          "Kimi Delta Attention for decoding and short continuations: works token by token."),
  };
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

std::vector<ResultRule> result_rules(std::string_view op, ArgumentTable table, std::size_t results) {
  std::vector<ResultRule> rules;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Argument& argument = table[i];
    if (argument.kind != ArgumentKind::output) continue;
    const bool in_place = !argument.in_place_of.empty();
    rules.push_back(
        {.output = i,
         .asked_for = row_named(table, "output_" + std::string(argument.name)),
         .like = in_place ? row_named(table, argument.in_place_of) : row_shaped_like(table, argument)});
  }
  if (rules.size() != results || rules.size() > kMaxResults || table.size() > kMaxArguments) {
    throw std::logic_error(std::string(op) + ": expected a table with an output for each of the " +
                           std::to_string(results) + " results, got " + std::to_string(rules.size()));
  }
  return rules;
}

}  // namespace fla::python
