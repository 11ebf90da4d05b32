#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fla/core/copy_arguments.h"
#include "fla/ops/ops.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"
#include "tools/cases/random_case.h"

namespace fla::cases {

/// The backward call of a forward one: the same inputs and options, and the gradients of its results. Pools
/// have none.
template <RecurrenceArgs Args>
typename Args::Backward backward_call(const Args& forward, const TensorView& gradient_of_o,
                                      const TensorView& gradient_of_state = {}) {
  auto backward = arguments_like<typename Args::Backward>(forward);
  backward.do_ = gradient_of_o;
  backward.dht = gradient_of_state;
  return backward;
}

/// A random call with random gradients of its results.
template <RecurrenceArgs Args>
struct BackwardCase {
  explicit BackwardCase(const CaseSpec<Args>& spec)
      : forward(make_case(spec)), upstream(filled(forward.args.v.shape(), spec.dtype, spec.seed + 50)) {
    if (forward.args.output_final_state) {
      const RecurrenceSizes sizes = sizes_of(forward.args);
      const bool turned = forward.args.state_v_first;
      of_state = filled(std::array{sizes.N, sizes.HV, turned ? sizes.V : sizes.K, turned ? sizes.K : sizes.V},
                        DType::f32, spec.seed + 51);
    }
    args = backward_call(forward.args, upstream, of_state);
  }

  RandomCase<Args> forward;
  Tensor upstream, of_state;
  typename Args::Backward args;

 private:
  static Tensor filled(std::span<const std::int64_t> shape, DType dtype, std::uint64_t seed) {
    Tensor tensor = Tensor::empty(shape, dtype);
    Random random(seed);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) store(tensor, i, static_cast<double>(random.normal()));
    return tensor;
  }
};

/// Gradients with their names: of RecurrenceGradients the tensors, of GradientReference the numbers.
template <class Gradients>
auto named_gradients(const Gradients& gradients) {
  std::vector<std::pair<std::string, decltype(gradients.dq)>> named;
#define FLA_INPUT(name) named.emplace_back("d" #name, gradients.d##name);
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  return named;
}

/// The relative error of a gradient; its norm where the whole reference is too small for its dtype.
inline double gradient_error(const TensorView& gradient, std::vector<double> reference) {
  const double least = gradient.dtype() == DType::f16 ? 1e-5 : 1e-35;
  const auto is_below = [least](double x) { return std::abs(x) < least; };
  if (std::ranges::all_of(reference, is_below)) std::ranges::fill(reference, 0.0);
  return relative_error(gradient, reference);
}

}  // namespace fla::cases
