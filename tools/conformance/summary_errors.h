#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fla/core/copy_arguments.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"

/// Summaries against the float64 reference, whoever computes them.
namespace fla::conformance {

/// P S + R in float64, states in the layout of R.
inline std::vector<double> applied(const RecurrenceSummary& summary, const TensorView& state, bool v_first) {
  const TensorView R = summary.R, P = summary.P;
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
  cases::ErrorSum sum;
  for (std::size_t i = 0; i < found.size(); ++i) sum.add(found[i], reference[i]);
  return sum.relative();
}

/// What is wrong with the summaries of a call by run(args), forward and of the gradients, from a state and
/// from none; empty when nothing is.
template <class Args, class Run>
std::string wrong_summaries(Run&& run, const cases::CaseSpec<Args>& spec, DType precision = DType::f32) {
  using Summary = typename Args::Summary;
  std::string wrong;
  const auto hold = [&](double error, double tolerance, const char* what) {
    if (error <= tolerance) return;  // NaN is wrong
    wrong += (wrong.empty() ? "" : ", ") + std::string(what) + " has an error of " + std::to_string(error);
  };
  const cases::BackwardCase<Args> made(spec);
  const Args& forward = made.forward.args;
  const std::vector<double> final_state = cases::reference_of(forward).final_state;
  const double tolerance = cases::tolerance(precision), of_gradients = cases::gradient_tolerance(precision);
  Summary args = arguments_like<Summary>(forward);
  hold(cases::relative_error(run(args).R, final_state), tolerance, "R from a state");
  args.initial_state = {};
  args.output_P = true;
  hold(error_of(applied(run(args), forward.initial_state, forward.state_v_first), final_state), tolerance,
       "P S + R");

  const std::vector<double> gradient = cases::gradient_reference_of(made.args).dinitial_state;
  args = arguments_like<Summary>(made.args);
  hold(cases::relative_error(run(args).R, gradient), of_gradients, "R from a gradient");
  args.dht = args.initial_state = {};
  args.output_P = true;
  hold(error_of(applied(run(args), made.of_state, forward.state_v_first), gradient), of_gradients,
       "P dS + R of gradients");
  return wrong;
}

}  // namespace fla::conformance
