#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"

namespace fla {

/// Gives `to` the arguments that `from` has under the same name and of the same kind, given or not: tensors,
/// indices and options of one function's call for another function.
FLA_API void copy_arguments(ArgumentTable from_table, const void* from, ArgumentTable to_table, void* to);

template <class To, class From>
To arguments_like(const From& from) {
  To to{};
  copy_arguments(From::arguments(), &from, To::arguments(), &to);
  to.stream = from.stream;
  return to;
}

}  // namespace fla
