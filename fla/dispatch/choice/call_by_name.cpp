#include "fla/dispatch/choice/call_by_name.h"

#include <memory>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/function_backend.h"
#include "fla/dispatch/registry/loader.h"

namespace fla::dispatch {

FunctionName parse_function_name(std::string_view name) {
  const std::size_t dot = name.find('.');
  const FunctionName parts{name.substr(0, dot),
                           dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1)};
  const bool wrong = parts.op.empty() || (dot != std::string_view::npos && parts.function.empty()) ||
                     parts.function.find('.') != std::string_view::npos;
  if (wrong) throw InvalidArgument("name", "expected op.function or an op, got '" + std::string(name) + "'");
  return parts;
}

std::uint64_t add_function_backend(std::string_view name, std::unique_ptr<FunctionBackendBase> backend,
                                   Slot slot) {
  const auto [op, function] = parse_function_name(name);
  const FunctionBase& found = find_function(op, function.empty() ? op : function);
  if (backend->info().name.empty()) throw InvalidArgument("info", "expected a name, got none");
  if (slot.run == nullptr) throw InvalidArgument("implementation", "expected a function, got none");
  slot.function = found.name();
  return add_backend(op, std::move(backend), {slot});
}

}  // namespace fla::dispatch
