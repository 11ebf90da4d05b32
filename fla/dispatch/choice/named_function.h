#pragma once

#include <cstddef>
#include <string_view>
#include <typeinfo>

#include "fla/core/export.h"

namespace fla::dispatch {

class FunctionBase;

/// What a name is checked against: the argument struct of the caller, and what its op's front door makes of
/// the arguments.
struct CallType {
  const std::type_info* args;
  const std::type_info* signature;
  std::size_t args_size;
  std::string_view front_door;  ///< the function that it picks for them; empty: the op has no front door
};

template <class Args>
CallType call_type(const Args& args) {
  using Result = typename Args::Result;
  CallType type{&typeid(Args), &typeid(Result(const Args&)), sizeof(Args), {}};
  if constexpr (requires { front_door(args); }) type.front_door = front_door(args);
  return type;
}

/// The function of that name. No name, or the op's own, is the op's front door and stands for the function
/// that it picks. An op that only a plugin has is loaded. Throws InvalidArgument for an unknown name,
/// or whose function takes another struct.
FLA_API const FunctionBase& function_named(std::string_view op, std::string_view function,
                                           const CallType& type);

}  // namespace fla::dispatch
