#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/explain.h"
#include "fla/dispatch/policy.h"
#include "tests/conformance/device_call.h"
#include "tests/conformance/kda_agreement.h"
#include "tests/gpu/gpu.h"
#include "tools/cases/kda_random.h"
#include "tools/cases/kda_reference.h"

namespace fla_test {

/// Tests that derive from it are reported as not run, with the reason, where tilelang is not.
template <class Base>
class WithTileLang : public OnGpu<Base> {
 protected:
  void SetUp() override {
    OnGpu<Base>::SetUp();
    if (this->IsSkipped()) return;
    if (const std::string why = why_without("tilelang"); !why.empty()) GTEST_SKIP() << "not run: " << why;
  }
};
using TileLangTest = WithTileLang<testing::Test>;

inline fla::Explanation::Row row_of(const fla::KdaArgs& args, std::string_view function = "chunk_kda") {
  for (const fla::Explanation::Row& row : fla::explain("kda", function, args).rows) {
    if (row.name == "tilelang") return row;
  }
  return {};
}

/// The result of tilelang, which must take the call, on the host.
inline fla::KdaResult tiled(const fla::KdaArgs& host, fla::conformance::DeviceCall::Indices indices =
                                                          fla::conformance::DeviceCall::Indices::on_device) {
  const fla::ScopedPolicy required({.require = {{"kda", "tilelang"}}});
  fla::conformance::DeviceCall call(host, kGpu, indices);
  fla::KdaResult result = call.bring_back(fla::chunk_kda(call.args()));
  EXPECT_EQ(call.damage(), "");
  return result;
}

/// How far off float64 tilelang is.
using Errors = fla::cases::KdaErrors;
inline Errors errors_of(const fla::KdaArgs& host) {
  const fla::cases::KdaReference reference = fla::cases::kda_reference(host);
  return fla::cases::kda_errors(tiled(host), reference);
}

/// A specification for every pair of instances: three head sizes, two dtypes, batches and packed sequences;
/// V is another size than K in each of the second ones.
inline std::vector<fla::cases::KdaSpec> specs_of_instances(std::int64_t T) {
  using fla::DType;
  std::vector<fla::cases::KdaSpec> specs;
  for (const std::int64_t K : {64, 128, 256}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      specs.push_back({.B = 2, .T = T, .H = 1, .HV = 2, .K = K, .V = K, .dtype = dtype});
      specs.push_back({.H = 2,
                       .K = K,
                       .V = K == 256 ? 64 : 2 * K,
                       .lengths = {T / 2, 0, T - T / 2 - 1, 1},
                       .dtype = dtype,
                       .gate_dtype = dtype});
    }
  }
  return specs;
}

}  // namespace fla_test
