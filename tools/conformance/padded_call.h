#pragma once

#include <cstdint>
#include <limits>

#include "fla/core/arguments.h"
#include "fla/ops/common/views_of.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/offsets.h"

namespace fla::conformance {

/// A packed call, forward or backward, without its last sequence: the tokens of that are padding, and hold
/// NaN from now on in the memory of the call that was given.
template <class Args>
Args without_last_sequence(const Args& args) {
  Args padded = args;
  const std::int64_t N = args.cu_seqlens.size(0) - 1;
  const std::int64_t tokens = common::indices_of(args.cu_seqlens)[N - 1];
  for (const Argument& argument : Args::arguments()) {
    if (!argument.is_tensor()) continue;
    TensorView& tensor = argument.tensor(static_cast<void*>(&padded));
    if (!tensor.defined()) continue;
    const ShapeRule& shape = argument.shape.first;
    if (argument.kind == ArgumentKind::index) {
      tensor = tensor.slice(0, 0, N);
    } else if (shape.dims[0].axis == Axis::P || shape.dims[0].axis == Axis::N) {
      tensor = tensor.slice(0, 0, N - 1);
    } else if (shape.rank > 1 && shape.dims[1].axis == Axis::T) {
      const TensorView rest = tensor.slice(1, tokens, tensor.size(1) - tokens);
      cases::for_each_offset(rest, [&](std::int64_t offset) {
        cases::store(rest, offset, std::numeric_limits<double>::quiet_NaN());
      });
    }
  }
  return padded;
}

/// Whether a tensor of [B, T, …] of such a call's results holds nothing but zeros there.
template <class Args>
bool has_empty_padding(const TensorView& tensor, const Args& padded) {
  const std::int64_t tokens = common::indices_of(padded.cu_seqlens)[padded.cu_seqlens.size(0) - 1];
  const TensorView rest = tensor.slice(1, tokens, tensor.size(1) - tokens);
  bool empty = true;
  cases::for_each_offset(rest,
                         [&](std::int64_t offset) { empty = empty && cases::element(rest, offset) == 0; });
  return empty;
}

}  // namespace fla::conformance
