#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/tensor.h"
#include "fla/dispatch/call/erased.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/ops/recurrence/arguments.h"

/// What the Python module knows of an op: its argument table and a few functions around its struct, their
/// types erased. Everything that is done for a call reads these, so that an op needs no code of its own.
namespace fla::python {

/// The most that an op's table may have; a call keeps its arguments on the stack.
inline constexpr std::size_t kMaxArguments = 48, kMaxArgsSize = 4096, kMaxResults = 12;

/// A result of an op, read off the row of its table for the caller's own memory, in whose order results come.
struct ResultRule {
  std::size_t output;  ///< the row of its table
  int asked_for = -1;  ///< the row of the flag "output_<name>"; -1: it comes without
  int like = -1;       ///< the row of the tensor whose dtype it has; f32 where that is absent
  /// Of a gradient, the row of its input, without which it does not come; where memory is given for some of a
  /// call's gradients, the others do not come, either.
  int gradient_of = -1;
};

struct Op {
  std::string_view name;
  ArgumentTable table;
  std::vector<ResultRule> results;
  const dispatch::ErasedArgs& args;
  Explanation (*explain)(std::string_view op, std::string_view function, const void* args);
};

struct OpFunction {
  const Op* op;
  std::string_view name;
  std::string_view doc;
  std::string_view backward;  ///< the function that has its gradients; empty: none has
  std::string_view formula;   ///< of the op, a line a step
  void (*run)(const void* args, std::span<Tensor> results);
};

/// Every function that Python has, in the order in which documents list them.
const std::vector<OpFunction>& functions();

/// Throws where a table says something that results cannot be made from.
std::vector<ResultRule> result_rules(std::string_view op, ArgumentTable table);

namespace detail {

/// A function's results in the order of its op's.
template <class Result>
void move_results(Result&& result, const Op& op, std::span<Tensor> into) {
  visit_results(result, [&](std::string_view name, Tensor& tensor) {
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (op.table[op.results[i].output].name == name) into[i] = std::move(tensor);
    }
  });
}

template <class Args>
const Op& op_of(std::string_view name) {
  static_assert(sizeof(Args) <= kMaxArgsSize);
  static const Op op{
      .name = name,
      .table = Args::arguments(),
      .results = result_rules(name, Args::arguments()),
      .args = dispatch::erased_args<Args>(),
      .explain =
          [](std::string_view op_name, std::string_view function, const void* args) {
            return fla::explain(op_name, function, *static_cast<const Args*>(args));
          },
  };
  return op;
}

}  // namespace detail

/// One of an op's functions, by its C++ name.
template <class Args, typename Args::Result (*Function)(const Args&)>
OpFunction function_of(std::string_view op, std::string_view name, std::string_view doc,
                       std::string_view formula, std::string_view backward = "") {
  static const Op& made = detail::op_of<Args>(op);
  return {&made, name, doc, backward, formula, [](const void* args, std::span<Tensor> results) {
            detail::move_results(Function(*static_cast<const Args*>(args)), made, results);
          }};
}

}  // namespace fla::python
