#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/tensor.h"
#include "fla/distributed/context.h"

/// What a rank has of a batch that the test knows as a whole.
namespace fla_test {

using fla::Tensor;
using fla::TensorView;
using fla::distributed::Context;
using fla::distributed::Piece;
using Numbers = std::vector<std::int64_t>;

inline Numbers starts_of(const Numbers& lengths) {
  Numbers starts{0};
  for (const std::int64_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

inline std::int64_t bytes_of(const TensorView& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

/// Slices of a contiguous tensor, [from, to) along an axis that only axes of size 1 come before, one behind
/// the other.
inline Tensor joined(const TensorView& all, int axis,
                     const std::vector<std::pair<std::int64_t, std::int64_t>>& ranges) {
  Numbers shape(all.shape().begin(), all.shape().end());
  std::int64_t& size = shape[static_cast<std::size_t>(axis)];
  size = 0;
  for (const auto& [from, to] : ranges) size += to - from;
  Tensor made = Tensor::empty(shape, all.dtype());
  const std::int64_t row = all.stride(axis) * static_cast<std::int64_t>(size_of(all.dtype()));
  char* to_here = made.as<char>();
  for (const auto& [from, to] : ranges) {
    std::memcpy(to_here, static_cast<const char*>(all.data()) + from * row,
                static_cast<std::size_t>((to - from) * row));
    to_here += (to - from) * row;
  }
  return made;
}

inline Tensor tokens_of(const Context& context, const TensorView& all) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const Piece& piece : context.pieces()) ranges.emplace_back(piece.begin, piece.end);
  return joined(all, 1, ranges);
}

inline Tensor states_of(const Context& context, const TensorView& all) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const Piece& piece : context.pieces()) ranges.emplace_back(piece.sequence, piece.sequence + 1);
  if (ranges.empty()) ranges.emplace_back(0, 1);
  return joined(all, 0, ranges);
}

/// The call of this rank: its tokens of every input, and states of its pieces.
template <class Args>
struct LocalCall {
  LocalCall(const Context& context, const Args& whole) : args(whole) {
    args.cu_seqlens = {};
    for (const fla::Argument& argument : Args::arguments()) {
      if (!argument.is_tensor() || !argument.tensor(&args).defined()) continue;
      TensorView& tensor = argument.tensor(&args);
      const fla::ShapeRule& rule = argument.shape.first;
      if (rule.rank >= 3 && rule.dims[1].axis == fla::Axis::T) {
        memory.push_back(tokens_of(context, tensor));
      } else if (rule.dims[0].axis == fla::Axis::P) {
        memory.push_back(states_of(context, tensor));
      } else {
        continue;
      }
      tensor = memory.back();
    }
  }
  Args args;
  std::vector<Tensor> memory;
};

}  // namespace fla_test
