#pragma once

#include <gtest/gtest.h>

#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/recurrence.h"
#include "tests/emulation/recurrence/poisoned.h"

namespace fla_test {

/// The result of kernels on the CPU, in memory and with a workspace that hold NaNs before.
template <class Args, class Workspace, class Launch>
fla::RecurrenceResult run_emulated(const Args& args, Workspace&& workspace, Launch&& launch) {
  fla::RecurrenceResult result = fla::make_result(args);
  poison(result.o);
  if (!args.final_state.defined()) poison(result.final_state);
  const fla::RecurrenceCall call = fla::call_of(args, result);
  const fla::CallExtras extras = fla::recurrence::extras_of(fla::recurrence::arguments_of(args));
  EXPECT_EQ(launch(call, extras, workspace_of(workspace(call, extras)).get(), nullptr), cudaSuccess);
  return result;
}

}  // namespace fla_test
