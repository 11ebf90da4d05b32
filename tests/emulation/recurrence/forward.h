#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/recurrence.h"
#include "tests/emulation/recurrence/poisoned.h"
#include "tools/cases/random_case.h"

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

/// Adds the options that the op has: calls like `plain`, and one that normalizes like `normalized`.
template <class Args>
void add_options(std::vector<fla::cases::CaseSpec<Args>>& specs, fla::cases::CaseSpec<Args> plain,
                 fla::cases::CaseSpec<Args> normalized) {
  for (const bool bounded : {false, true}) {
    if constexpr (requires(Args args) { args.use_gate_in_kernel; }) {
      specs.push_back(plain);
      Args& options = specs.back().options;
      options.use_qk_l2norm_in_kernel = true;
      options.use_gate_in_kernel = true;
      options.use_beta_sigmoid_in_kernel = true;
      options.allow_neg_eigval = bounded;
      if (bounded) options.lower_bound = -5;
    }
  }
  if constexpr (requires(Args args) { args.normalize; }) {
    specs.push_back(normalized);
    specs.back().options.normalize = true;
  }
  if constexpr (requires(Args args) { args.g_gamma; }) {
    specs.push_back(plain);
    specs.back().head_gates = true;
  }
}

}  // namespace fla_test
