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

/// Tests that derive from it are reported as not run, with the reason, where flash_kda is not.
template <class Base>
class OnHopper : public OnGpu<Base> {
 protected:
  void SetUp() override {
    OnGpu<Base>::SetUp();
    if (this->IsSkipped()) return;
    if (const std::string why = why_without("flash_kda"); !why.empty()) GTEST_SKIP() << "not run: " << why;
  }
};
using FlashTest = OnHopper<testing::Test>;

inline fla::Explanation::Row row_of(const fla::KdaArgs& args, std::string_view function = "chunk_kda") {
  for (const fla::Explanation::Row& row : fla::explain("kda", function, args).rows) {
    if (row.name == "flash_kda") return row;
  }
  return {};
}

/// The result of flash_kda, which must take the call, on the host.
inline fla::KdaResult flashed(
    const fla::KdaArgs& host,
    fla::conformance::DeviceCall::Indices indices = fla::conformance::DeviceCall::Indices::on_device) {
  const fla::ScopedPolicy required({.require = {{"kda", "flash_kda"}}});
  fla::conformance::DeviceCall call(host, kGpu, indices);
  fla::KdaResult result = call.bring_back(fla::chunk_kda(call.args()));
  EXPECT_EQ(call.damage(), "");
  return result;
}

/// How far off float64 flash_kda is.
using Errors = fla::cases::KdaErrors;
inline Errors errors_of(const fla::KdaArgs& host) {
  const fla::cases::KdaReference reference = fla::cases::kda_reference(host);
  return fla::cases::kda_errors(flashed(host), reference);
}

/// A call for every route: many heads, few; packed; one that is cut into segments.
inline std::vector<fla::cases::KdaSpec> specs_of_routes() {
  using fla::DType;
  return {
      {.T = 200, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16},
      {.B = 2, .T = 130, .H = 70, .HV = 140, .K = 128, .V = 128, .dtype = DType::f16},
      {.H = 2, .HV = 4, .K = 128, .V = 128, .lengths = {10, 70, 0, 300}, .dtype = DType::bf16},
      {.T = 3000, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .data = fla::cases::KdaData::slow},
  };
}

}  // namespace fla_test
