#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/device.h"
#include "fla/core/tensor.h"
#include "fla/core/workspace.h"
#include "fla/dispatch/observe/explain.h"

/// What the Python module knows of an op: its argument table and a few functions around its struct, their
/// types erased. Everything that is done for a call reads these, so that an op needs no code of its own.
namespace fla::python {

/// The most that an op's table may have; a call keeps its arguments on the stack.
inline constexpr std::size_t kMaxArguments = 48, kMaxArgsSize = 4096, kMaxResults = 4;

/// A result of an op, read off the row of its table for the caller's own memory. Results stand in the struct
/// that a function returns in the order in which such rows stand in the table.
struct ResultRule {
  std::size_t output;  ///< the row of its table
  int asked_for = -1;  ///< the row of the flag "output_<name>"; -1: it always comes
  int like = -1;       ///< the row of the tensor whose dtype it has; f32 where that is absent
};

struct Op {
  std::string_view name;
  ArgumentTable table;
  std::vector<ResultRule> results;
  std::size_t args_size;
  void (*construct)(void* memory);
  void (*set_stream)(void* args, Stream stream);
  void (*set_workspace)(void* args, Workspace workspace);
  std::size_t (*workspace_size)(const void* args);
  Explanation (*explain)(std::string_view op, std::string_view function, const void* args);
};

struct OpFunction {
  const Op* op;
  std::string_view name;
  std::string_view doc;
  void (*run)(const void* args, std::span<Tensor> results);
};

/// Every function that Python has, in the order in which documents list them.
const std::vector<OpFunction>& functions();

/// Throws where a table says something that results cannot be made from.
std::vector<ResultRule> result_rules(std::string_view op, ArgumentTable table, std::size_t results);

namespace detail {

template <class Result>
constexpr std::size_t result_count() {
  if constexpr (requires { Result{Tensor(), Tensor(), Tensor(), Tensor()}; }) return 4;
  if constexpr (requires { Result{Tensor(), Tensor(), Tensor()}; }) return 3;
  if constexpr (requires { Result{Tensor(), Tensor()}; }) return 2;
  return 1;
}

template <class Result>
void move_results(Result&& result, std::span<Tensor> into) {
  constexpr std::size_t count = result_count<std::remove_cvref_t<Result>>();
  const auto put = [&into](auto&... tensors) {
    std::size_t next = 0;
    ((into[next++] = std::move(tensors)), ...);
  };
  if constexpr (count == 4) {
    auto& [a, b, c, d] = result;
    put(a, b, c, d);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = result;
    put(a, b, c);
  } else if constexpr (count == 2) {
    auto& [a, b] = result;
    put(a, b);
  } else {
    auto& [a] = result;
    put(a);
  }
}

template <class Args>
const Op& op_of(std::string_view name) {
  static_assert(std::is_trivially_destructible_v<Args> && sizeof(Args) <= kMaxArgsSize);
  static const Op op{
      .name = name,
      .table = Args::arguments(),
      .results = result_rules(name, Args::arguments(), result_count<typename Args::Result>()),
      .args_size = sizeof(Args),
      .construct = [](void* memory) { new (memory) Args(); },
      .set_stream = [](void* args, Stream stream) { static_cast<Args*>(args)->stream = stream; },
      .set_workspace = [](void* args,
                          Workspace workspace) { static_cast<Args*>(args)->workspace = workspace; },
      .workspace_size = [](const void* args) { return workspace_size(*static_cast<const Args*>(args)); },
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
OpFunction function_of(std::string_view op, std::string_view name, std::string_view doc) {
  return {&detail::op_of<Args>(op), name, doc, [](const void* args, std::span<Tensor> results) {
            detail::move_results(Function(*static_cast<const Args*>(args)), results);
          }};
}

}  // namespace fla::python
