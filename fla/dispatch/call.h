#pragma once

#include <cstddef>
#include <string_view>
#include <typeinfo>

#include "fla/core/export.h"
#include "fla/dispatch/dispatch.h"
#include "fla/dispatch/plan.h"

/// Functions by name: "op.function", such as "kda.chunk_kda". The op's name alone, or twice ("kda.kda"), is
/// its front door, which picks the function by the call. An op that only a plugin has is loaded by its name.
namespace fla {

namespace dispatch {

/// What a name is checked against: the argument struct of the caller.
struct CallType {
  const std::type_info* args;
  const std::type_info* signature;
  std::size_t args_size;
  std::string_view (*front_door)(const void* args);  ///< null: the struct has none
};

/// Throws InvalidArgument for a name that nobody has, or whose function takes another struct.
FLA_API const FunctionBase& function_named(std::string_view name, const CallType& type, const void* args);

template <class Args>
const Function<typename Args::Result, Args>& function_named(std::string_view name, const Args& args) {
  using Result = typename Args::Result;
  CallType type{&typeid(Args), &typeid(Result(const Args&)), sizeof(Args), nullptr};
  if constexpr (requires { front_door(args); }) {
    type.front_door = [](const void* given) -> std::string_view {
      return front_door(*static_cast<const Args*>(given));
    };
  }
  return static_cast<const Function<Result, Args>&>(function_named(name, type, &args));
}

}  // namespace dispatch

/// Calls the function of that name, as if by its C++ name: validated, dispatched, counted. Throws as the
/// function does, and InvalidArgument for a name or a struct that does not fit. Looking the name up costs a
/// lock and some comparisons: keep what resolve() returns to call it often.
template <class Args>
typename Args::Result call(std::string_view name, const Args& args) {
  return dispatch::function_named(name, args)(args);
}

/// The plan for a call of the function of that name: a callable that has chosen. Throws as call() does.
template <class Args>
Plan<Args> resolve(std::string_view name, const Args& args) {
  const dispatch::FunctionBase& function = dispatch::function_named(name, args);
  return plan(function.op(), function.name(), args);
}

}  // namespace fla
