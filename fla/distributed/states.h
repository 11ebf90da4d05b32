#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/core/tensor.h"
#include "fla/distributed/context.h"

/// What functions over a context share: states of every piece of a rank.
namespace fla::distributed {

inline bool goes_out(const Piece& piece) { return !piece.ends; }
inline bool comes_in(const Piece& piece) { return !piece.begins; }

/// f32 zeros, a state of that shape for each sequence of this rank's calls.
Tensor zero_states(const Context& context, std::span<const std::int64_t> shape, Device device, Stream stream);

/// Copies a state into a contiguous one of the same dtype; on the CPU whatever its strides are.
void copy_state(const TensorView& from, const TensorView& to, Stream stream);

/// Where among all_pieces() those of a piece's sequence are: before it, and behind it.
struct Neighbours {
  std::size_t first, own, end;
};
Neighbours neighbours_of(const Context& context, const Piece& piece);

/// Throws InvalidArgument unless a tensor [B, T, …] of a call has one batch and this rank's tokens, and is on
/// the transport's GPU, if that has one.
void check_tokens(const Context& context, std::string_view op, std::string_view argument,
                  const TensorView& tensor);
/// Throws InvalidArgument where a call over a context has this argument.
void check_absent(std::string_view op, std::string_view argument, const TensorView& tensor);

}  // namespace fla::distributed
