#include "fla/distributed/states.h"

#include <algorithm>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"

namespace fla::distributed {

Tensor zero_states(const Context& context, std::span<const std::int64_t> shape, Device device,
                   Stream stream) {
  std::vector<std::int64_t> all{context.cu_seqlens().size(0) - 1};
  all.insert(all.end(), shape.begin(), shape.end());
  Tensor states = empty_on(all, DType::f32, device, stream);
  clear(states, stream);
  return states;
}

void copy_state(const TensorView& from, const TensorView& to, Stream stream) {
  copy(copy_to(from, to.device(), stream), to, stream);
}

Neighbours neighbours_of(const Context& context, const Piece& piece) {
  const std::span<const Piece> all = context.all_pieces();
  const auto own = static_cast<std::size_t>(std::ranges::find_if(all,
                                                                 [&](const Piece& each) {
                                                                   return each.part == piece.part &&
                                                                          each.sequence == piece.sequence;
                                                                 }) -
                                            all.begin());
  Neighbours found{own, own, own + 1};
  while (!all[found.first].begins) --found.first;
  while (!all[found.end - 1].ends) ++found.end;
  return found;
}

void check_tokens(const Context& context, std::string_view op, std::string_view argument,
                  const TensorView& tensor) {
  const Device device = context.device();
  if (tensor.defined() && !device.is_cpu() && tensor.device() != device) {
    throw InvalidArgument(argument,
                          "expected a tensor on " + to_string(device) +
                              ", where the context's transport is, got " + tensor.describe(),
                          op);
  }
  if (tensor.rank() < 2 || (tensor.size(0) == 1 && tensor.size(1) == context.tokens())) return;
  throw InvalidArgument(argument,
                        "expected B=1 and T=" + std::to_string(context.tokens()) + ", the tokens of rank " +
                            std::to_string(context.rank()) + ", got shape " + shape_text(tensor.shape()),
                        op);
}

void check_absent(std::string_view op, std::string_view argument, const TensorView& tensor) {
  if (tensor.defined())
    throw InvalidArgument(argument, "expected none in a call over ranks, got a tensor", op);
}

}  // namespace fla::distributed
