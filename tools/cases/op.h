#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/dispatch/observe/explain.h"
#include "tools/cases/safetensors.h"

namespace fla::cases {

/// An op with its types erased: what reading a case, running it and asking about it need. `args` is always
/// the op's own argument struct, as make_args makes it.
struct Op {
  std::string_view name;
  std::string_view title;  ///< its name, or "op.function" where functions have arguments of their own
  ArgumentTable arguments;
  std::span<const std::string_view> functions;  ///< without the front door, which is called like the op
  std::span<const std::string_view> results;

  std::shared_ptr<void> (*make_args)();
  void (*validate)(const void* args);
  std::string_view (*front_door)(const void* args);
  Explanation (*explain)(std::string_view function, const void* args);
  /// The results that were asked for, under their names.
  std::vector<NamedTensor> (*run)(std::string_view function, const void* args);

  /// `function` as given, or the one that the front door picks when it is empty or the op's name. Throws
  /// InvalidArgument for a function that the op does not have.
  std::string_view function_or_front_door(std::string_view function, const void* args) const;
};

/// The op of that title. Throws InvalidArgument, naming those that there are.
const Op& find_op(std::string_view title);
/// The op of that name, or that function of it where it has arguments of its own.
const Op& find_op(std::string_view name, std::string_view function);

/// The backward function of an op, which has arguments of its own; null where it has none.
const Op* backward_of(const Op& op);

}  // namespace fla::cases
