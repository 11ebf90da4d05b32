#pragma once

#include "fla/ops/step/arguments.h"

/// The original kernels of steps: those of the three parts one after another, on CPUs and on CUDA devices.
/// Errors are as fla/ops/recurrence/original.h says.
namespace fla::step {

StepResult run(const Arguments& args);

template <StepArgs Args>
StepResult run(const Args& args) {
  return run(arguments_of(args));
}

}  // namespace fla::step
