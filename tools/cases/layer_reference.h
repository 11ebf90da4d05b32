#pragma once

#include <vector>

#include "fla/ops/gated_rms_norm/gated_rms_norm.h"
#include "fla/ops/short_conv/short_conv.h"
#include "fla/ops/step/arguments.h"

/// The ops of a layer around its recurrence in float64, token by token. Arguments are right, and on the CPU;
/// a reference of a call that updates something in place must be made before the call.
namespace fla::cases {

struct ShortConvReference {
  std::vector<double> o;            ///< as the result, row-major
  std::vector<double> final_state;  ///< likewise, of every slot; those that are not written as they were
};
ShortConvReference reference_of(const ShortConvArgs& args);

std::vector<double> reference_of(const GatedRmsNormArgs& args);

struct StepReference {
  std::vector<double> o;                  ///< as the result, row-major
  std::vector<double> conv_state, state;  ///< the pools after the step, row-major
};
StepReference reference_of(const step::Arguments& args);

template <StepArgs Args>
StepReference reference_of(const Args& args) {
  return reference_of(step::arguments_of(args));
}

}  // namespace fla::cases
