#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "fla/core/half.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

/// Calls on the CPU, of any dtype, whose numbers are very large, very small or not finite.
namespace fla_test {

inline void set_element(const fla::TensorView& tensor, std::int64_t offset, double value) {
  const auto x = static_cast<float>(value);
  switch (tensor.dtype()) {
    case fla::DType::bf16: tensor.as<fla::bf16>()[offset] = fla::from_float<fla::bf16>(x); break;
    case fla::DType::f16: tensor.as<fla::f16>()[offset] = fla::from_float<fla::f16>(x); break;
    default: tensor.as<float>()[offset] = x;
  }
}

inline void multiply(const fla::TensorView& tensor, double factor) {
  if (!tensor.defined()) return;
  fla::conformance::for_each_offset(
      tensor, [&](std::int64_t at) { set_element(tensor, at, factor * fla::cases::element(tensor, at)); });
}

/// What a call is scaled by: o is linear in q, o and the state in v and the initial state, and with 2^k times
/// the keys, 2^-2k times beta and 2^k times v the state is the same.
struct Magnitude {
  const char* name;
  int q, k, v;       ///< powers of two
  double state = 0;  ///< power of two, beyond v's: of the initial state alone
};

inline void apply(const Magnitude& magnitude, const fla::KdaArgs& args) {
  multiply(args.q, std::exp2(magnitude.q));
  multiply(args.k, std::exp2(magnitude.k));
  multiply(args.beta, std::exp2(-2 * magnitude.k));
  multiply(args.v, std::exp2(magnitude.v + magnitude.k));
  multiply(args.initial_state, std::exp2(magnitude.v + magnitude.state));
}

/// As far as a dtype of q, k, v and o goes without losing digits of its own; beta and states are f32.
inline std::vector<Magnitude> magnitudes_of(fla::DType dtype) {
  if (dtype == fla::DType::f16)
    return {{"plain", 0, 0, 0},      {"v 2^6", 0, 0, 6},
            {"v 2^-6", 0, 0, -6},    {"keys 2^5", 0, 5, 0},
            {"keys 2^-5", 0, -5, 0}, {"q 2^3", 3, 0, 0},
            {"q 2^-6", -6, 0, 0},    {"states 2^20, q 2^-6", -6, 0, 0, 20}};
  return {{"plain", 0, 0, 0},
          {"v 1e-8", 0, 0, -27},
          {"v 1e-6", 0, 0, -20},
          {"v 1e6", 0, 0, 20},
          {"v 1e8", 0, 0, 27},
          {"v 2^-60", 0, 0, -60},
          {"v 2^60", 0, 0, 60},
          {"v 1e30", 0, 0, 100},
          {"v 1e-30", 0, 0, -100},
          {"states 1e6", 0, 0, 0, 20},
          {"states 1e30", 0, 0, 0, 100},
          {"q 2^60", 60, 0, 0},
          {"q 2^-60", -60, 0, 0},
          {"keys 2^30", 0, 30, 0},
          {"keys 2^-30", 0, -30, 0},
          {"v 2^60, q 2^-60", -60, 0, 60}};
}

/// Where a number that is not finite stands in a call.
struct Spoilt {
  const char* name;
  const fla::TensorView* tensor;
  double value;
  std::int64_t token;
};

/// Each of q, k, v, g and beta with NaN and infinities, at these tokens.
inline std::vector<Spoilt> all_spoilt(const fla::KdaArgs& args, const std::vector<std::int64_t>& tokens) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Spoilt> all;
  for (const std::int64_t token : tokens) {
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
      all.insert(all.end(), {{"q", &args.q, value, token},
                             {"k", &args.k, value, token},
                             {"v", &args.v, value, token},
                             {"beta", &args.beta, value, token}});
      if (!(value < 0)) all.push_back({"g", &args.g, value, token});  // -inf forgets, which is no fault
    }
  }
  return all;
}

/// Runs a call with such a number in its last batch and head, and expects of outputs and states: those that
/// the recurrence leaves finite are within `bar` of it, and no others are finite.
template <class Run>
void expect_causal(const fla::KdaArgs& args, const Spoilt& spoilt, double bar, Run&& run) {
  const fla::TensorView& tensor = *spoilt.tensor;
  std::int64_t at = (tensor.size(0) - 1) * tensor.stride(0) + spoilt.token * tensor.stride(1) +
                    (tensor.size(2) - 1) * tensor.stride(2);
  if (tensor.rank() == 4) at += tensor.size(3) / 2 * tensor.stride(3);
  const double before = fla::cases::element(tensor, at);
  set_element(tensor, at, spoilt.value);
  const fla::cases::Reference reference = fla::cases::reference_of(args);
  const fla::KdaResult result = run(args);
  set_element(tensor, at, before);

  const std::string what = std::to_string(spoilt.value) + " in " + spoilt.name + " at token " +
                           std::to_string(spoilt.token) + " of " + fla::conformance::describe(args);
  const auto compare = [&](const char* name, const fla::TensorView& is, const std::vector<double>& expected) {
    fla::cases::ErrorSum error;
    std::int64_t lost = 0, gained = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double x = fla::cases::element(is, static_cast<std::int64_t>(i));
      if (std::isfinite(expected[i]) && std::isfinite(x)) error.add(x, expected[i]);
      lost += std::isfinite(expected[i]) && !std::isfinite(x);
      gained += !std::isfinite(expected[i]) && std::isfinite(x);
    }
    EXPECT_EQ(lost, 0) << name << " is finite in the recurrence: " << what;
    EXPECT_EQ(gained, 0) << name << " is not finite in the recurrence: " << what;
    EXPECT_LE(error.relative(), bar) << name << ": " << what;
  };
  compare("o", result.o, reference.o);
  if (result.final_state.defined()) compare("final_state", result.final_state, reference.final_state);
}

}  // namespace fla_test
