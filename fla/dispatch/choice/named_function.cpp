#include "fla/dispatch/choice/named_function.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/call/function.h"
#include "fla/dispatch/registry/loader.h"

namespace fla::dispatch {
namespace {

/// A type as a program's author writes it.
std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : type.name();
}

std::string full_name(const FunctionBase& function) {
  return std::string(function.op()) + "." + std::string(function.name());
}

const FunctionBase& behind_front_door(std::string_view op, const CallType& type) {
  try {
    return find_function(op, type.front_door);
  } catch (const InvalidArgument& error) {
    if (error.argument() == "op") throw;
  }
  throw InvalidArgument("args", "expected the arguments of op " + std::string(op) + ", got " +
                                    name_of(*type.args) + ", which belong to " +
                                    std::string(type.front_door));
}

}  // namespace

const FunctionBase& function_named(std::string_view op, std::string_view function, const CallType& type) {
  const bool front = (function.empty() || function == op) && !type.front_door.empty();
  const FunctionBase& found =
      front ? behind_front_door(op, type) : find_function(op, function.empty() ? op : function);
  const FunctionBase::Description& known = found.description();
  if (*known.args_type != *type.args) {
    throw InvalidArgument("args", "expected " + name_of(*known.args_type) + ", the arguments of " +
                                      full_name(found) + ", got " + name_of(*type.args));
  }
  if (known.args_size != type.args_size || *known.signature != *type.signature) {
    throw InvalidArgument("args", "expected " + name_of(*known.args_type) + " as " + full_name(found) +
                                      " was compiled with it (" + std::to_string(known.args_size) +
                                      " bytes), got one of " + std::to_string(type.args_size) + " bytes");
  }
  return found;
}

}  // namespace fla::dispatch
