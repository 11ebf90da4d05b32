#include "fla/core/copy_arguments.h"

namespace fla {

void copy_arguments(ArgumentTable from_table, const void* from, ArgumentTable to_table, void* to) {
  for (const Argument& argument : to_table) {
    const Argument* source = find_argument(from_table, argument.name);
    if (source == nullptr || source->kind != argument.kind) continue;
    switch (argument.kind) {
      case ArgumentKind::flag: argument.flag(to) = source->flag(from); break;
      case ArgumentKind::number: argument.number(to) = source->number(from); break;
      case ArgumentKind::integer: argument.integer(to) = source->integer(from); break;
      default: argument.tensor(to) = source->tensor(from);
    }
  }
}

}  // namespace fla
