#pragma once

#include <memory>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/backend/backend.h"

namespace fla::dispatch {

/// A backend that would take a call of one function.
struct AcceptingBackend {
  std::shared_ptr<const BaseBackend> backend;
  std::string_view function;
  Verdict verdict;
};

/// The available backends of the op whose verifiers accept these arguments, one entry per function that takes
/// arguments of this type. Settings are ignored. For what must suit every backend, such as a workspace's
/// size.
FLA_API std::vector<AcceptingBackend> accepting_backends(std::string_view op, const std::type_info& args_type,
                                                         const void* args);

template <class Args>
std::vector<AcceptingBackend> accepting_backends(std::string_view op, const Args& args) {
  return accepting_backends(op, typeid(Args), &args);
}

}  // namespace fla::dispatch
