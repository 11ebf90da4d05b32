#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/ops/kda/kda.h"
#include "tools/conformance/agreement.h"

namespace fla_test {

/// Every public way to run a call, and its name.
inline constexpr std::pair<const char*, fla::KdaResult (*)(const fla::KdaArgs&)> kEveryWay[] = {
    {"original::chunk_kda", fla::original::chunk_kda},
    {"original::fused_recurrent_kda", fla::original::fused_recurrent_kda},
    {"chunk_kda", fla::chunk_kda},
    {"fused_recurrent_kda", fla::fused_recurrent_kda},
    {"kda", fla::kda},
};

/// Runs a call every way and expects the float64 reference's answer.
inline void expect_agreement(const fla::KdaArgs& args) {
  const fla::cases::Reference reference = fla::cases::reference_of(args);
  for (const auto& [name, run] : kEveryWay) {
    const fla::KdaResult result = run(args);
    EXPECT_EQ(fla::conformance::disagreement(result, reference, args), "")
        << name << " " << fla::conformance::describe(args);
    EXPECT_EQ(result.final_state.defined(), args.output_final_state || args.final_state.defined()) << name;
  }
}

/// Expects everything that takes a call to refuse this one in these words.
inline void expect_refusal(const fla::KdaArgs& args, const std::string& argument,
                           const std::string& message) {
  const auto expect = [&](const char* where, auto&& body) {
    try {
      body();
      ADD_FAILURE() << where << " threw nothing";
    } catch (const fla::InvalidArgument& error) {
      EXPECT_EQ(error.argument(), argument) << where;
      EXPECT_EQ(error.what(), "kda: " + argument + ": " + message) << where;
      EXPECT_EQ(error.op(), "kda") << where;
    }
  };
  for (const auto& [way, run] : kEveryWay) expect(way, [&, run = run] { run(args); });
  expect("explain", [&] { fla::explain("kda", "kda", args); });
  expect("plan", [&] { fla::plan("kda", "chunk_kda", args); });
  expect("validate_arguments", [&] { fla::validate_arguments(args); });
}

}  // namespace fla_test
