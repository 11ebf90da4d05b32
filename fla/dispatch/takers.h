#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/backend.h"

namespace fla::dispatch {

/// A backend that would take a call of one function.
struct Taker {
  std::shared_ptr<const BaseBackend> backend;
  std::string_view function;
  Verdict verdict;
};

/// Every available backend of the op whose verifier accepts these arguments, once a function that takes such
/// ones, whatever the settings say. For what has to suit all of them, such as the size of a workspace.
FLA_API std::vector<Taker> takers_of(std::string_view op, const std::type_info& args_type, const void* args);

template <class Args>
std::vector<Taker> takers_of(std::string_view op, const Args& args) {
  return takers_of(op, typeid(Args), &args);
}

/// Grows whenever backends or settings change. What was looked up while it stayed the same belongs together.
FLA_API std::uint64_t generation();

}  // namespace fla::dispatch
