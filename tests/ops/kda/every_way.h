#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "fla/ops/kda/kda.h"
#include "tests/conformance/kda_agreement.h"

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
  const fla::cases::KdaReference reference = fla::cases::kda_reference(args);
  for (const auto& [name, run] : kEveryWay) {
    const fla::KdaResult result = run(args);
    EXPECT_EQ(fla::conformance::disagreement(result, reference, args), "")
        << name << " " << fla::conformance::describe(args);
    EXPECT_EQ(result.final_state.defined(), args.output_final_state || args.final_state.defined()) << name;
  }
}

}  // namespace fla_test
