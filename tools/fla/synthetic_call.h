#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/tensor.h"
#include "tools/cases/op.h"
#include "tools/fla/settings.h"

namespace fla::command {

/// Reads "B=1,T=8192,H=32,K=128,V=128". B is 1 unless given, HV is H, V is K; what else is left out has
/// no size. Throws InvalidArgument.
AxisSizes parse_shape(std::string_view text);
/// The same, of a call that must have T, H and K.
AxisSizes parse_recurrence_shape(std::string_view text);

/// An optional tensor of a call: "NAME", "NAME=DTYPE", "NAME@DEVICE" or "NAME=DTYPE@DEVICE".
struct OptionalTensor {
  std::string name;
  std::optional<DType> dtype{};
  std::optional<Device> device{};
};

/// Throws InvalidArgument.
OptionalTensor parse_optional_tensor(const std::string& word);

/// A call by its shape, to ask about and not to run: its tensors point at no memory, except that indices on
/// the host are real.
struct SyntheticCall {
  std::shared_ptr<void> args;
  std::vector<Tensor> memory;
};

/// The required tensors have `dtype`, or f32 where they cannot; those that `with` names are f32 and on
/// `device` unless it says otherwise, indices i64 and on the host. Where N is given there are cu_seqlens,
/// named or not: N packed sequences, about equally long. An index of slots names the first ones in their
/// order; rings are empty. Throws InvalidArgument.
SyntheticCall make_synthetic_call(const cases::Op& op, const AxisSizes& sizes, DType dtype, Device device,
                                  const Settings& options, const std::vector<OptionalTensor>& with);

}  // namespace fla::command
