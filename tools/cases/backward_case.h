#pragma once

#include "fla/ops/ops.h"

namespace fla::cases {

/// The backward call of a forward one: the same inputs and options, and the gradients of its results. Pools
/// have none.
template <RecurrenceArgs Args>
typename Args::Backward backward_call(const Args& forward, const TensorView& gradient_of_o,
                                      const TensorView& gradient_of_state = {}) {
  typename Args::Backward backward{};
  for (const Argument& argument : Args::Backward::arguments()) {
    const Argument* from = find_argument(Args::arguments(), argument.name);
    if (from == nullptr) continue;
    switch (argument.kind) {
      case ArgumentKind::flag: argument.flag(&backward) = from->flag(&forward); break;
      case ArgumentKind::number: argument.number(&backward) = from->number(&forward); break;
      default: argument.tensor(&backward) = from->tensor(&forward);
    }
  }
  backward.do_ = gradient_of_o;
  backward.dht = gradient_of_state;
  return backward;
}

}  // namespace fla::cases
