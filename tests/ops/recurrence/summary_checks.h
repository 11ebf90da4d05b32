#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tools/conformance/summary_errors.h"

/// Summaries of every op of the family against the reference, whoever computes them.
namespace fla_test {

/// run(args) gives the summary of a call.
template <class Args, class Run>
void expect_summary(Run&& run, const fla::cases::CaseSpec<Args>& spec, const std::string& what) {
  EXPECT_EQ(fla::conformance::wrong_summaries<Args>(run, spec), "") << Args::kOp.name << ", " << what;
}

template <class Args, class Run>
void expect_summaries(Run&& run) {
  using fla::cases::DataKind;
  fla::cases::CaseSpec<Args> spec{.H = 1, .HV = 2, .K = 12, .V = 20, .lengths = {19, 0, 90, 1}};
  expect_summary(run, spec, "packed");
  spec.options.state_v_first = true;
  expect_summary(run, spec, "states of [V, K]");
  if constexpr (requires { spec.options.use_qk_l2norm_in_kernel; }) {
    spec.options.use_qk_l2norm_in_kernel = true;
    expect_summary(run, spec, "norm");
  }
  if constexpr (requires { spec.options.use_gate_in_kernel; }) {
    spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
    expect_summary(run, spec, "gate and sigmoid");
  }
  if constexpr (requires { spec.options.g_gamma; }) {
    spec.head_gates = true;
    expect_summary(run, spec, "a gate a head");
  }
  for (const DataKind data : {DataKind::slow, DataKind::strong, DataKind::resets, DataKind::mixed}) {
    expect_summary<Args>(run, {.T = 70, .H = 1, .K = 16, .V = 16, .data = data},
                         std::string(fla::cases::name_of(data)));
  }
}

}  // namespace fla_test
