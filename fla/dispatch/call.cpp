#include "fla/dispatch/call.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/function_backend.h"
#include "fla/dispatch/registry_state.h"

namespace fla::dispatch {
namespace {

/// A type as a program's author writes it.
std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : type.name();
}

struct Name {
  std::string_view op, function;  ///< no function: the front door
};

Name split(std::string_view name) {
  const std::size_t dot = name.find('.');
  const Name parts{name.substr(0, dot),
                   dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1)};
  const bool wrong = parts.op.empty() || (dot != std::string_view::npos && parts.function.empty()) ||
                     parts.function.find('.') != std::string_view::npos;
  if (wrong) throw InvalidArgument("name", "expected op.function or an op, got '" + std::string(name) + "'");
  return parts;
}

std::string full_name(const FunctionBase& function) {
  return std::string(function.op()) + "." + std::string(function.name());
}

const FunctionBase& behind_front_door(std::string_view op, const CallType& type, const void* args) {
  const std::string_view chosen = type.front_door(args);
  try {
    return Registry::instance().function(op, chosen);
  } catch (const InvalidArgument& error) {
    if (error.argument() == "op") throw;
  }
  throw InvalidArgument("args", "expected the arguments of op " + std::string(op) + ", got " +
                                    name_of(*type.args) + ", which belong to " + std::string(chosen));
}

}  // namespace

const FunctionBase& function_named(std::string_view name, const CallType& type, const void* args) {
  const auto [op, function] = split(name);
  const bool front = (function.empty() || function == op) && type.front_door != nullptr;
  const FunctionBase& found = front ? behind_front_door(op, type, args)
                                    : Registry::instance().function(op, function.empty() ? op : function);
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

std::uint64_t add_function_backend(std::string_view name, std::unique_ptr<FunctionBackendBase> backend,
                                   Slot slot) {
  const auto [op, function] = split(name);
  const FunctionBase& found = Registry::instance().function(op, function.empty() ? op : function);
  if (backend->info().name.empty()) throw InvalidArgument("info", "expected a name, got none");
  if (slot.run == nullptr) throw InvalidArgument("implementation", "expected a function, got none");
  slot.function = found.name();
  return add_backend(op, std::move(backend), {slot});
}

}  // namespace fla::dispatch
