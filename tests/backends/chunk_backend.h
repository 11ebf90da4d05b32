#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/gpu/gpu.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/device_call.h"

/// Tests of one backend that takes chunk_kda on a GPU.
namespace fla_test {

using Errors = fla::cases::Errors;

/// Tests that derive from its Fixture are reported as not run, with the reason, where the backend is not.
template <const char* name>
struct ChunkBackend {
  template <class Base>
  class Fixture : public OnGpu<Base> {
   protected:
    void SetUp() override {
      OnGpu<Base>::SetUp();
      if (this->IsSkipped()) return;
      if (const std::string why = why_without(name); !why.empty()) GTEST_SKIP() << "not run: " << why;
    }
  };

  static fla::Explanation::Row row_of(const fla::KdaArgs& args, std::string_view function = "chunk_kda") {
    for (const fla::Explanation::Row& row : fla::explain("kda", function, args).rows) {
      if (row.name == name) return row;
    }
    return {};
  }

  /// Its result on the host; it must take the call.
  static fla::KdaResult result_of(const fla::KdaArgs& host, fla::conformance::DeviceIndices indices =
                                                                fla::conformance::DeviceIndices::on_device) {
    const fla::ScopedPolicy required({.require = {{"kda", name}}});
    fla::conformance::DeviceCall call(host, kGpu, indices);
    fla::KdaResult result = call.bring_back(fla::chunk_kda(call.args()));
    EXPECT_EQ(call.damage(), "");
    return result;
  }

  /// How far off float64 it is.
  static Errors errors_of(const fla::KdaArgs& host) {
    const fla::cases::Reference reference = fla::cases::reference_of(host);
    return fla::cases::errors_of(result_of(host), reference);
  }
};

}  // namespace fla_test
