#pragma once

#include "fla/ops/ops.h"

namespace fla::cases {

/// Calls body(tensor) for every input of a call that has tokens.
template <RecurrenceArgs Args, class Body>
void for_each_token_tensor(Args& args, Body&& body) {
  for (const Argument& argument : Args::arguments()) {
    if (argument.kind != ArgumentKind::tensor || argument.shape.first.dims[1].axis != Axis::T) continue;
    if (TensorView& tensor = argument.tensor(static_cast<void*>(&args)); tensor.defined()) body(tensor);
  }
}

}  // namespace fla::cases
