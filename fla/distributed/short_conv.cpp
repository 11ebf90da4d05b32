#include <algorithm>
#include <array>

#include "fla/core/device_memory.h"
#include "fla/distributed/ops.h"
#include "fla/distributed/states.h"

namespace fla::distributed {
namespace {

/// Inputs of one sequence as rows of channels, [W - 1, D], the newest last, so that runs of them are copied
/// at once: a state [1, D, W - 1] as short_conv reads and writes it.
TensorView as_state(const TensorView& rows) {
  const std::int64_t kept = rows.size(0), D = rows.size(1);
  return {rows.data(), DType::f32, {1, D, kept}, {kept * D, 1, D}, rows.device()};
}

/// The last W - 1 inputs of a piece, what a convolution that goes on needs. Those that lie before the piece
/// come from initial_state, where it begins its sequence; otherwise they are 0 and the pieces before have
/// them. The op itself finds them: they are its final state behind the piece's last tokens.
void last_inputs(const ShortConvArgs& args, std::size_t i, const Piece& piece, std::int64_t most,
                 const TensorView& rows) {
  const std::int64_t count = std::min(most, piece.count());
  ShortConvArgs own{.x = args.x.slice(1, piece.first + piece.count() - count, count), .weight = args.weight};
  if (piece.begins && args.initial_state.defined())
    own.initial_state = args.initial_state.slice(0, static_cast<std::int64_t>(i), 1);
  own.final_state = as_state(rows);
  own.stream = args.stream;
  (void)fla::short_conv(own);
}

}  // namespace

ShortConvResult short_conv(Context& context, const ShortConvArgs& given) {
  ShortConvArgs args = given;
  check_absent("short_conv", "cu_seqlens", args.cu_seqlens);
  check_absent("short_conv", "state_indices", args.state_indices);
  check_tokens(context, "short_conv", "x", args.x);
  args.cu_seqlens = context.cu_seqlens();
  validate_arguments(args);
  const std::span<const Piece> pieces = context.pieces(), all = context.all_pieces();
  const std::int64_t D = args.x.size(2), kept = args.weight.size(1) - 1;
  const auto rows_of = [&](const TensorView& block) {
    return TensorView(block.data(), DType::f32, {kept, D}, block.device());
  };
  const auto blocks = context.exchange(
      D * kept, goes_out, args.x.device(), args.stream,
      [&](std::size_t i, const TensorView& block) { last_inputs(args, i, pieces[i], kept, rows_of(block)); });
  if (!std::ranges::any_of(pieces, comes_in)) return fla::short_conv(args);

  const Tensor inputs = zero_states(context, std::array{kept, D}, args.x.device(), args.stream);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const TensorView own = rows_of(inputs.view().slice(0, static_cast<std::int64_t>(i), 1));
    if (pieces[i].begins) {
      if (args.initial_state.defined()) last_inputs(args, i, pieces[i], 0, own);
      continue;
    }
    // From the newest input to the oldest: a piece may be shorter than what is wanted.
    const Neighbours of = neighbours_of(context, pieces[i]);
    std::int64_t left = kept;
    for (std::size_t before = of.own; left > 0 && before-- > of.first;) {
      const std::int64_t has = all[before].begins ? kept : std::min(kept, all[before].count());
      const std::int64_t taken = std::min(left, has);
      copy(rows_of(blocks.of[before]).slice(0, kept - taken, taken), own.slice(0, left - taken, taken),
           args.stream);
      left -= taken;
    }
  }
  const std::int64_t N = inputs.size(0);
  args.initial_state = TensorView(inputs.data(), DType::f32, {N, D, kept}, {kept * D, 1, D}, inputs.device());
  return fla::short_conv(args);
}

}  // namespace fla::distributed
