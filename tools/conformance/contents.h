#pragma once

#include "fla/core/tensor.h"
#include "tools/cases/random.h"

namespace fla::conformance {

/// What random numbers a tensor is filled with: -0.5 to 0, 0.2 to 0.9, 0.2 to 1.2 times a factor, or normal
/// ones times a factor.
enum class Contents { decays, shares, positive, normal };

/// Every element on its own, in row-major order.
void fill_with(Contents contents, double factor, const TensorView& tensor, cases::Random& random);

}  // namespace fla::conformance
