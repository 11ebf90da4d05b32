#include <algorithm>
#include <array>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/core/half.h"
#include "fla/distributed/ops.h"
#include "fla/distributed/states.h"

namespace fla::distributed {
namespace {

/// One element of a tensor on the CPU.
float element(const TensorView& tensor, std::int64_t offset) {
  switch (tensor.dtype()) {
    case DType::bf16: return to_float(tensor.as<bf16>()[offset]);
    case DType::f16: return to_float(tensor.as<f16>()[offset]);
    default: return tensor.as<float>()[offset];
  }
}

/// The last W - 1 inputs of a piece, [D, W - 1], the newest last: what a convolution that goes on needs.
/// Those that lie before the piece come from initial_state, where it begins its sequence; otherwise the
/// entries are 0 and the pieces before have them.
void last_inputs(const ShortConvArgs& args, std::size_t i, const Piece& piece, std::span<float> to) {
  const std::int64_t D = args.x.size(2), kept = args.weight.size(1) - 1, own = std::min(kept, piece.count());
  const Tensor inputs =
      copy_to(args.x.slice(1, piece.first + piece.count() - own, own), Device::cpu(), args.stream);
  Tensor state;
  if (piece.begins && args.initial_state.defined())
    state = copy_to(args.initial_state.slice(0, static_cast<std::int64_t>(i), 1), Device::cpu(), args.stream);
  for (std::int64_t d = 0; d < D; ++d) {
    float* const row = to.data() + d * kept;
    for (std::int64_t j = 0; j < own; ++j) row[kept - own + j] = element(inputs, j * D + d);
    for (std::int64_t j = 0; state.defined() && j < kept - own; ++j)
      row[j] = element(state, d * kept + own + j);
  }
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
  const auto blocks = context.exchange(
      D * kept, goes_out, [&](std::size_t i, std::span<float> to) { last_inputs(args, i, pieces[i], to); });
  if (!std::ranges::any_of(pieces, comes_in)) return fla::short_conv(args);

  const Tensor inputs = zero_states(context, std::array{D, kept}, Device::cpu(), {});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    float* const own = inputs.as<float>() + static_cast<std::int64_t>(i) * D * kept;
    if (pieces[i].begins) {
      if (!args.initial_state.defined()) continue;
      const Tensor state =
          copy_to(args.initial_state.slice(0, static_cast<std::int64_t>(i), 1), Device::cpu(), args.stream);
      for (std::int64_t j = 0; j < D * kept; ++j) own[j] = element(state, j);
      continue;
    }
    // From the newest input to the oldest: a piece may be shorter than what is wanted.
    const Neighbours of = neighbours_of(context, pieces[i]);
    std::int64_t left = kept;
    for (std::size_t before = of.own; left > 0 && before-- > of.first;) {
      const std::int64_t has = all[before].begins ? kept : std::min(kept, all[before].count());
      const std::int64_t taken = std::min(left, has);
      for (std::int64_t d = 0; d < D; ++d)
        std::copy_n(blocks[before].data() + (d + 1) * kept - taken, taken, own + d * kept + left - taken);
      left -= taken;
    }
  }
  const Tensor states = copy_to(inputs, args.x.device(), args.stream);
  args.initial_state = states;
  return fla::short_conv(args);
}

}  // namespace fla::distributed
