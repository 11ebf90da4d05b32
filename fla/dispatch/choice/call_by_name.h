#pragma once

#include <string_view>

#include "fla/core/export.h"
#include "fla/dispatch/choice/plan.h"

/// Functions by name: "op.function", such as "kda.chunk_kda". The op's name alone, or twice ("kda.kda"), is
/// its front door, which picks the function by the call. An op that only a plugin has is loaded by its name.
namespace fla {

namespace dispatch {

struct FunctionName {
  std::string_view op, function;  ///< no function: the front door
};

/// The parts of "op.function" or "op". Throws InvalidArgument.
FLA_API FunctionName parse_function_name(std::string_view name);

}  // namespace dispatch

/// Calls the function of that name, as if by its C++ name: validated, dispatched, counted. Throws as the
/// function does, and InvalidArgument for a name or a struct that does not fit. Looking the name up costs a
/// lock and some comparisons: keep what resolve() returns to call it often.
template <class Args>
typename Args::Result call(std::string_view name, const Args& args) {
  const auto [op, function] = dispatch::parse_function_name(name);
  return dispatch::function_for(op, function, args)(args);
}

/// The plan for a call of the function of that name: a callable that has chosen. Throws as call() does.
template <class Args>
Plan<Args> resolve(std::string_view name, const Args& args) {
  const auto [op, function] = dispatch::parse_function_name(name);
  return plan(op, function, args);
}

}  // namespace fla
