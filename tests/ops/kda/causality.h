#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "fla/ops/kda/kda.h"
#include "tests/conformance/kda_agreement.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/kda_random.h"

namespace fla_test {

/// Row [b, t, h] of a contiguous f32 output.
inline const float* row_of(const fla::Tensor& o, std::int64_t b, std::int64_t t, std::int64_t h) {
  return o.as<const float>() + ((b * o.size(1) + t) * o.size(2) + h) * o.size(3);
}

/// Puts a number that is none into one token of a f32 call, in each of q, k, v, g and beta, at every token of
/// the first chunks and in the last one, and expects outputs before that token to be what they were: the same
/// bits, for g (which decides how a chunk is computed) the same but for rounding. Other heads and sequences
/// have the same bits. The token itself shows it.
inline void expect_causal(const char* name, fla::KdaResult (*run)(const fla::KdaArgs&),
                          const fla::cases::KdaSpec& spec) {
  const fla::cases::KdaCase call = fla::cases::make_kda_case(spec);
  const fla::KdaSizes size = fla::sizes_of(call.args);
  const fla::KdaResult clean = run(call.args);
  const std::int64_t row = size.V * static_cast<std::int64_t>(sizeof(float)), batch = size.B - 1;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const fla::TensorView* spoiled :
         {&call.args.q, &call.args.k, &call.args.v, &call.args.g, &call.args.beta}) {
      const bool gate = spoiled == &call.args.g;
      const std::int64_t head = spoiled->size(2) - 1,
                         channel = spoiled->rank() == 4 ? spoiled->size(3) / 2 : 0;
      const std::int64_t first_head = head * (size.HV / spoiled->size(2));  // of the values' that read it
      for (std::int64_t at = 0; at < size.T; ++at) {
        if (at >= 20 && at < size.T - 2) continue;
        if (!std::isnan(poison) && at % 9 != 3) continue;
        float& element = spoiled->as<float>()[batch * spoiled->stride(0) + at * spoiled->stride(1) +
                                              head * spoiled->stride(2) + channel];
        const float before = element;
        element = poison;
        const fla::KdaResult result = run(call.args);
        element = before;
        std::string where = std::string(name) + ": " + std::to_string(poison) + " in " +
                            (spoiled == &call.args.q   ? "q"
                             : spoiled == &call.args.k ? "k"
                             : spoiled == &call.args.v ? "v"
                             : gate                    ? "g"
                                                       : "beta") +
                            " at token " + std::to_string(at);
        fla::cases::ErrorSum error;
        for (std::int64_t b = 0; b < size.B; ++b) {
          for (std::int64_t t = 0; t < size.T; ++t) {
            for (std::int64_t h = 0; h < size.HV; ++h) {
              const float *is = row_of(result.o, b, t, h), *was = row_of(clean.o, b, t, h);
              const bool same_head = b == batch && h >= first_head;
              if (same_head && t >= at) continue;
              if (same_head && gate) {
                for (std::int64_t j = 0; j < size.V; ++j) error.add(is[j], was[j]);
              } else if (std::memcmp(is, was, static_cast<std::size_t>(row)) != 0) {
                FAIL() << where << " changes token " << t << " of head " << h << " of sequence " << b;
              }
            }
          }
        }
        ASSERT_LE(error.relative(), 2 * fla::cases::tolerance(fla::DType::f32)) << where;
        if (!std::isnan(poison)) continue;
        bool shows = false;
        for (std::int64_t j = 0; j < size.V; ++j)
          shows = shows || std::isnan(row_of(result.o, batch, at, size.HV - 1)[j]);
        ASSERT_TRUE(shows) << where << " is lost";
      }
    }
  }
}

/// The calls of which that is expected: chunks that go every way that there is.
inline void expect_causal(const char* name, fla::KdaResult (*run)(const fla::KdaArgs&)) {
  using fla::cases::KdaData;
  for (const KdaData data : {KdaData::random, KdaData::slow, KdaData::resets}) {
    expect_causal(name, run, {.B = 2, .T = 29, .H = 2, .HV = 4, .K = 20, .V = 28, .data = data});
  }
  expect_causal(name, run,
                {.T = 22,
                 .H = 2,
                 .K = 16,
                 .V = 16,
                 .options = {.output_final_state = true,
                             .use_qk_l2norm_in_kernel = true,
                             .use_gate_in_kernel = true,
                             .use_beta_sigmoid_in_kernel = true,
                             .lower_bound = -5.0f}});
}

/// Multiplies every element of a contiguous f32 tensor.
inline void scale_by(const fla::TensorView& tensor, float factor) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.as<float>()[i] *= factor;
}

/// Calls whose numbers are as large or as small as they may be, if expect(args) holds of them.
template <class Expect>
void for_each_magnitude(Expect&& expect) {
  using fla::cases::KdaData;
  const auto with = [&](KdaData data, auto&& change, std::int64_t T = 45) {
    fla::cases::KdaSpec spec{.T = T, .H = 2, .K = 48, .V = 40};
    spec.data = data;
    const fla::cases::KdaCase call = fla::cases::make_kda_case(spec);
    change(call.args);
    expect(call.args);
  };
  for (const KdaData data : fla::cases::kAllKdaData) {
    // o and the state are linear in v and the state, 1e33 is where a frame of 30 bits leaves the range of
    // f32.
    for (const float factor : {0x1p-60f, 0x1p-30f, 0x1p60f, 1e33f}) {
      with(data, [&](const fla::KdaArgs& args) {
        scale_by(args.v, factor);
        scale_by(args.initial_state, factor);
      });
    }
    with(data, [](const fla::KdaArgs& args) { scale_by(args.q, 1e33f); });
  }
  // Tokens that write nothing, whatever their keys are: the state only decays.
  for (const KdaData data : {KdaData::random, KdaData::bound, KdaData::slow, KdaData::mixed}) {
    with(
        data,
        [](const fla::KdaArgs& args) {
          scale_by(args.k, 1e33f);
          scale_by(args.beta, 0.0f);
        },
        12);
  }
}

}  // namespace fla_test
