#pragma once

#include <array>
#include <vector>

#include "fla/ops/recurrence/recurrence.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {

/// A call whose inputs lie between poison and whose outputs are poison, in buffers that show writes around
/// them. For calls without state_indices: those have pools to write to (PooledCall).
template <RecurrenceArgs Args>
struct Surrounded {
  Args args;
  std::vector<LaidOut> inputs, outputs;

  /// layout_of(argument, rank) says how each tensor lies.
  template <class LayoutOf>
  Surrounded(const Args& source, LayoutOf&& layout_of) : args(source) {
    const ArgumentTable table = Args::arguments();
    inputs.reserve(table.size());
    outputs.reserve(2);
    for (const Argument& argument : table) {
      if (!argument.is_tensor() || argument.kind == ArgumentKind::output) continue;
      TensorView& tensor = argument.tensor(static_cast<void*>(&args));
      if (!tensor.defined()) continue;
      inputs.push_back(LaidOut::copy_of(tensor, layout_of(argument, tensor.rank())));
      tensor = inputs.back().view();
    }
    const RecurrenceSizes size = sizes_of(args);
    const std::array<std::int64_t, 4> o{size.B, size.T, size.HV, size.V};
    outputs.emplace_back(o, args.v.dtype(), layout_of(*find_argument(table, "out"), 4));
    args.out = outputs.back().view();
    if (!args.output_final_state) return;
    const std::array<std::int64_t, 4> state{size.N, size.HV, args.state_v_first ? size.V : size.K,
                                            args.state_v_first ? size.K : size.V};
    outputs.emplace_back(state, DType::f32, layout_of(*find_argument(table, "final_state"), 4));
    args.final_state = outputs.back().view();
  }

  /// All tensors row-major.
  explicit Surrounded(const Args& source)
      : Surrounded(source, [](const Argument&, int) { return Layout{}; }) {}
};

}  // namespace fla::conformance
