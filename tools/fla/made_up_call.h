#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/tensor.h"
#include "tools/cases/op.h"
#include "tools/fla/settings.h"

namespace fla::command {

/// Reads "B=1,T=8192,H=32,K=128,V=128". B is 1 unless given, HV is H, V is K; N, the number of packed
/// sequences, and P, the slots of a pool of states, may be left out. Throws InvalidArgument.
AxisSizes parse_shape(std::string_view text);

/// A call by its shape, to ask about and not to run: its tensors point at no memory, except that indices are
/// real and on the host.
struct MadeUpCall {
  std::shared_ptr<void> args;
  std::vector<Tensor> memory;
};

/// The required tensors have `dtype`; `with` names optional ones, each with a dtype or "" for f32. N packed
/// sequences are about equally long; an index of slots names the first ones in their order.
MadeUpCall make_up_call(const cases::Op& op, const AxisSizes& sizes, DType dtype, Device device,
                        const Settings& options, const Settings& with);

}  // namespace fla::command
