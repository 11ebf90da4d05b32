#include "tools/conformance/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "fla/dispatch/observe/ops.h"
#include "tests/conformance/expect_holds.h"
#include "tests/core/sanitized.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/allocations.h"

namespace {

namespace conformance = fla::conformance;

const conformance::Options kOptions{.golden_dir = FLA_GOLDEN_DIR, .allocations = fla_test::allocations};

struct Subject {
  std::string op, backend, check;
};

constexpr std::string_view kAll = "all";

bool has_a_test_a_check(const std::string& op) { return op == "common" || op == "kda"; }

/// Whether an op is left to builds without sanitizers, which make a check many times dearer: kda runs the
/// family's kernels, and the fuzzer those that it does not.
bool is_left_out(const std::string& op) {
  return fla_test::kSanitized && op != "kda" &&
         std::ranges::find(fla::cases::kOpNames, op) != fla::cases::kOpNames.end();
}

/// Every check of every op on its original kernel and on every backend that is linked in.
std::vector<Subject> subjects() {
  std::vector<Subject> found;
  for (const fla::OpStatus& op : fla::ops()) {
    if (std::ranges::find(conformance::ops_with_checks(), op.name) == conformance::ops_with_checks().end() ||
        is_left_out(op.name))
      continue;
    std::vector<std::string> backends{"original"};
    for (const fla::BackendStatus& backend : op.backends) backends.emplace_back(backend.info.name);
    for (const std::string& backend : backends) {
      if (!has_a_test_a_check(op.name)) {
        found.push_back({op.name, backend, std::string(kAll)});
        continue;
      }
      for (const std::string_view check : conformance::checks(op.name))
        found.push_back({op.name, backend, std::string(check)});
    }
  }
  return found;
}

class Conformance : public testing::TestWithParam<Subject> {};

TEST_P(Conformance, Holds) {
  const auto& [op, backend, check] = GetParam();
  const std::vector<conformance::Report> reports =
      check == kAll ? conformance::run_conformance(op, backend, kOptions)
                    : std::vector{conformance::run_check(op, backend, check, kOptions)};
  if (const std::string skipped = fla_test::expect_holds(reports); !skipped.empty()) GTEST_SKIP() << skipped;
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(subjects()), [](const auto& test) {
  return test.param.op + "_" + test.param.backend + "_" + test.param.check;
});

TEST(ConformanceSuite, ADeviceThatIsNotThereIsAReasonToSkip) {
  conformance::Options options = kOptions;
  options.device = {fla::DeviceType::cuda, 99};
  const std::string reason(fla::why_no_cuda_device());
  EXPECT_EQ(conformance::run_check("kda", "original", "random", options).skipped,
            reason.empty() ? "there is no cuda:99" : reason);
  EXPECT_EQ(
      conformance::run_check("common", "original", conformance::checks("common").front(), options).skipped,
      "stages run on cpu, not on cuda:99");
}

TEST(ConformanceSuite, NamesMustExist) {
  EXPECT_THROW(conformance::run_check("kda", "nobody", "random", kOptions), fla::InvalidArgument);
  EXPECT_THROW(conformance::run_check("kda", "original", "nothing", kOptions), fla::InvalidArgument);
  EXPECT_THROW(conformance::checks("mix"), fla::InvalidArgument);
}

}  // namespace
