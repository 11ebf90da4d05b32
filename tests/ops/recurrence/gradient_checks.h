#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/recurrence/family_inputs.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/with_op.h"

/// Gradients of every op of the family against the reference, whoever computes them. The conformance suite
/// has what else must hold.
namespace fla_test {

using fla::DType;
using fla::Tensor;
using fla::TensorView;

using fla::cases::BackwardCase;

/// A function that gives gradients.
template <class Args>
using Backward = fla::RecurrenceGradients (*)(const typename Args::Backward&);

template <class Args>
void expect_reference(Backward<Args> run, const fla::cases::CaseSpec<Args>& spec, const std::string& what) {
  const BackwardCase<Args> made(spec);
  const auto reference = fla::cases::named_gradients(fla::cases::gradient_reference_of(made.args));
  const auto gradients = fla::cases::named_gradients(run(made.args));
  const bool repeats = spec.data == fla::cases::DataKind::repeated_keys;
  const double tolerance = fla::cases::gradient_tolerance(spec.dtype) * (repeats ? 2 : 1);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& [name, gradient] = gradients[i];
    ASSERT_EQ(gradient.numel() > 0, !reference[i].second.empty())
        << Args::kOp.name << ", " << what << ", " << name;
    if (gradient.numel() == 0) continue;
    EXPECT_LE(fla::cases::gradient_error(gradient, reference[i].second), tolerance)
        << Args::kOp.name << ", " << what << ", " << name;
  }
}

template <class Args>
void expect_all(Backward<Args> run) {
  using Spec = fla::cases::CaseSpec<Args>;
  const Spec packed{.H = 1, .HV = 2, .K = 12, .V = 20, .lengths = {19, 0, 290, 1}};
  expect_reference<Args>(run, packed, "packed");
  Spec turned{.B = 2, .T = 70, .H = 2, .K = 20, .V = 12, .initial_state = false};
  turned.options.state_v_first = true;
  expect_reference<Args>(run, turned, "states of [V, K]");
  turned.initial_state = true;
  turned.options.scale = 0.3f;
  expect_reference<Args>(run, turned, "states of [V, K] from a state");
  turned.options.output_final_state = false;
  expect_reference<Args>(run, turned, "no gradient of a state");
  for (const fla::cases::DataKind data : fla::cases::kAllDataKinds) {
    expect_reference<Args>(run, {.T = 130, .H = 1, .K = 32, .V = 16, .data = data},
                           std::string(fla::cases::name_of(data)));
  }
  expect_reference<Args>(run,
                         {.T = 40,
                          .H = 2,
                          .HV = 4,
                          .K = 16,
                          .V = 16,
                          .dtype = DType::bf16,
                          .gate_dtype = DType::bf16,
                          .fused_projection = true},
                         "bf16 in one row a token");
  expect_reference<Args>(run, {.T = 40, .H = 2, .K = 1, .V = 1, .dtype = DType::f16}, "f16 and one channel");
  Spec options{.T = 40, .H = 1, .HV = 2, .K = 24, .V = 16};
  if constexpr (requires { options.options.use_qk_l2norm_in_kernel; }) {
    options.options.use_qk_l2norm_in_kernel = true;
    expect_reference<Args>(run, options, "norm");
  }
  if constexpr (requires { options.options.use_gate_in_kernel; }) {
    options.options.use_gate_in_kernel = options.options.use_beta_sigmoid_in_kernel = true;
    expect_reference<Args>(run, options, "gate and sigmoid");
    options.options.allow_neg_eigval = true;
    options.options.lower_bound = -5.0f;
    expect_reference<Args>(run, options, "bounded gate and doubled sigmoid");
  }
  if constexpr (requires { options.options.normalize; }) {
    options.options.normalize = true;
    options.T = 300;
    expect_reference<Args>(run, options, "normalized");
  }
  if constexpr (requires { options.options.g_gamma; }) {
    options.head_gates = true;
    expect_reference<Args>(run, options, "a gate a head");
  }
}

template <class Args>
void expect_any_gate(Backward<Args> run) {
  if constexpr (requires(Args args) { args.g; }) {
    for (const auto& [name, gate] : kFamilyGates) {
      BackwardCase<Args> made({.T = 60, .H = 1, .K = 16, .V = 16});
      fla::cases::Random random(13);
      const Tensor g = Tensor::empty(made.args.g.shape(), DType::f32);
      for (std::int64_t i = 0; i < g.numel(); ++i) g.as<float>()[i] = gate(random);
      made.args.g = g;
      const auto reference = fla::cases::named_gradients(fla::cases::gradient_reference_of(made.args));
      const auto gradients = fla::cases::named_gradients(run(made.args));
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i].second.defined()) continue;
        EXPECT_LE(fla::cases::gradient_error(gradients[i].second, reference[i].second),
                  fla::cases::gradient_tolerance(DType::f32))
            << Args::kOp.name << ", " << name << ", " << gradients[i].first;
      }
    }
  }
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

}  // namespace fla_test
