#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "fla/core/copy_arguments.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"

/// Summaries of every op of the family against the reference, whoever computes them.
namespace fla_test {

/// P S + R in float64, states in the layout of R.
inline std::vector<double> applied(const fla::RecurrenceSummary& summary, const fla::TensorView& state,
                                   bool v_first) {
  const fla::TensorView R = summary.R, P = summary.P;
  const std::int64_t heads = R.size(0) * R.size(1), K = R.size(v_first ? 3 : 2), V = R.size(v_first ? 2 : 3);
  const bool diagonal = P.rank() == 3;
  std::vector<double> all(static_cast<std::size_t>(heads * K * V));
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto at = [&](std::int64_t k, std::int64_t v) {
      return head * K * V + (v_first ? v * K + k : k * V + v);
    };
    for (std::int64_t i = 0; i < K; ++i) {
      for (std::int64_t v = 0; v < V; ++v) {
        double sum = R.as<float>()[at(i, v)];
        for (std::int64_t j = diagonal ? i : 0; j < (diagonal ? i + 1 : K); ++j) {
          const double p = P.as<float>()[diagonal ? head * K + i : (head * K + i) * K + j];
          sum += p * static_cast<double>(state.as<float>()[at(j, v)]);
        }
        all[static_cast<std::size_t>(at(i, v))] = sum;
      }
    }
  }
  return all;
}

/// The relative error of numbers.
inline double error_of(const std::vector<double>& found, const std::vector<double>& reference) {
  if (found.size() != reference.size()) return std::numeric_limits<double>::infinity();
  fla::cases::ErrorSum sum;
  for (std::size_t i = 0; i < found.size(); ++i) sum.add(found[i], reference[i]);
  return sum.relative();
}

/// run(args) gives the summary of a call.
template <class Args, class Run>
void expect_summary(Run&& run, const fla::cases::CaseSpec<Args>& spec, const std::string& what) {
  using Summary = typename Args::Summary;
  SCOPED_TRACE(std::string(Args::kOp.name) + ", " + what);
  const fla::cases::BackwardCase<Args> made(spec);
  const Args& forward = made.forward.args;
  const std::vector<double> final_state = fla::cases::reference_of(forward).final_state;
  const double tolerance = fla::cases::tolerance(fla::DType::f32),
               of_gradients = fla::cases::gradient_tolerance(fla::DType::f32);
  Summary args = fla::arguments_like<Summary>(forward);
  EXPECT_LE(fla::cases::relative_error(run(args).R, final_state), tolerance) << "from a state";
  args.initial_state = {};
  args.output_P = true;
  EXPECT_LE(error_of(applied(run(args), forward.initial_state, forward.state_v_first), final_state),
            tolerance);

  const std::vector<double> gradient = fla::cases::gradient_reference_of(made.args).dinitial_state;
  args = fla::arguments_like<Summary>(made.args);
  EXPECT_LE(fla::cases::relative_error(run(args).R, gradient), of_gradients) << "from a gradient";
  args.dht = args.initial_state = {};
  args.output_P = true;
  EXPECT_LE(error_of(applied(run(args), made.of_state, forward.state_v_first), gradient), of_gradients)
      << "of gradients";
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
