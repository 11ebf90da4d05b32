#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/ops/kda/extremes.h"

namespace fla_test {

/// Row [b, t, h] of a contiguous f32 output.
inline const float* row_of(const fla::Tensor& o, std::int64_t b, std::int64_t t, std::int64_t h) {
  return o.as<const float>() + ((b * o.size(1) + t) * o.size(2) + h) * o.size(3);
}

/// Runs an f32 call with a number that is not finite in its last batch and head, and expects outputs before
/// that token to be what they were: the same bits, for g (which decides how a chunk is computed) the same but
/// for rounding. Other heads and sequences have the same bits. At the token NaN shows.
inline void expect_outputs_before(const char* name, fla::KdaResult (*run)(const fla::KdaArgs&),
                                  const fla::KdaArgs& args, const fla::KdaResult& clean,
                                  const Spoilt& spoilt) {
  const fla::RecurrenceSizes size = fla::sizes_of(args);
  const fla::TensorView& tensor = *spoilt.tensor;
  const std::int64_t batch = size.B - 1, head = tensor.size(2) - 1;
  std::int64_t at = batch * tensor.stride(0) + spoilt.token * tensor.stride(1) + head * tensor.stride(2);
  if (tensor.rank() == 4) at += tensor.size(3) / 2 * tensor.stride(3);
  const double before = fla::cases::element(tensor, at);
  set_element(tensor, at, spoilt.value);
  const fla::KdaResult result = run(args);
  set_element(tensor, at, before);

  const std::string where = std::string(name) + ": " + std::to_string(spoilt.value) + " in " + spoilt.name +
                            " at token " + std::to_string(spoilt.token);
  const std::int64_t first_head = head * (size.HV / tensor.size(2));  // of the values' that read it
  fla::cases::ErrorSum error;
  for (std::int64_t b = 0; b < size.B; ++b) {
    for (std::int64_t t = 0; t < size.T; ++t) {
      for (std::int64_t h = 0; h < size.HV; ++h) {
        const bool same_head = b == batch && h >= first_head;
        if (same_head && t >= spoilt.token) continue;
        const float *is = row_of(result.o, b, t, h), *was = row_of(clean.o, b, t, h);
        if (same_head && &tensor == &args.g) {
          for (std::int64_t j = 0; j < size.V; ++j) error.add(is[j], was[j]);
        } else if (std::memcmp(is, was, static_cast<std::size_t>(size.V) * sizeof(float)) != 0) {
          FAIL() << where << " changes token " << t << " of head " << h << " of sequence " << b;
        }
      }
    }
  }
  ASSERT_LE(error.relative(), 2 * fla::cases::tolerance(fla::DType::f32)) << where;
  if (!std::isnan(spoilt.value)) return;
  bool shows = false;
  const float* row = row_of(result.o, batch, spoilt.token, size.HV - 1);
  for (std::int64_t j = 0; j < size.V; ++j) shows = shows || std::isnan(row[j]);
  ASSERT_TRUE(shows) << where << " is lost";
}

/// That, for chunks that go every way that there is and tokens all over them.
inline void expect_outputs_before(const char* name, fla::KdaResult (*run)(const fla::KdaArgs&)) {
  using fla::cases::DataKind;
  const auto expect = [&](const fla::cases::KdaSpec& spec) {
    const fla::cases::KdaCase call = fla::cases::make_kda_case(spec);
    const fla::KdaResult clean = run(call.args);
    for (const Spoilt& spoilt : all_spoilt(call.args, {0, 1, 3, 6, 7, 8, 10, 12, 13, 15, 16, 19, spec.T - 1}))
      expect_outputs_before(name, run, call.args, clean, spoilt);
  };
  for (const DataKind data : {DataKind::random, DataKind::slow, DataKind::resets})
    expect({.B = 2, .T = 29, .H = 2, .HV = 4, .K = 20, .V = 28, .data = data});
  expect({.T = 22,
          .H = 2,
          .K = 16,
          .V = 16,
          .options = {.output_final_state = true,
                      .use_qk_l2norm_in_kernel = true,
                      .use_gate_in_kernel = true,
                      .use_beta_sigmoid_in_kernel = true,
                      .lower_bound = -5.0f}});
}

/// Hands calls over whose numbers are as large or as small as the recurrence in f32 stands.
template <class Expect>
void for_each_magnitude(Expect&& expect) {
  using fla::cases::DataKind;
  const auto with = [&](DataKind data, std::int64_t T, auto&& change) {
    const fla::cases::KdaCase call =
        fla::cases::make_kda_case({.T = T, .H = 2, .K = 48, .V = 40, .data = data});
    change(call.args);
    expect(call.args);
  };
  for (const DataKind data : fla::cases::kAllDataKinds) {
    for (const double factor : {0x1p-60, 0x1p-30, 0x1p60, 1e33}) {
      with(data, 45, [&](const fla::KdaArgs& args) {
        multiply(args.v, factor);
        multiply(args.initial_state, factor);
      });
    }
    with(data, 45, [](const fla::KdaArgs& args) { multiply(args.q, 1e33); });
  }
  // Tokens that write nothing, whatever their keys are: the state only decays.
  for (const DataKind data : {DataKind::random, DataKind::bound, DataKind::slow, DataKind::mixed}) {
    with(data, 12, [](const fla::KdaArgs& args) {
      multiply(args.k, 1e33);
      multiply(args.beta, 0);
    });
  }
}

}  // namespace fla_test
