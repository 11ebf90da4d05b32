#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fla/dispatch/observe/ops.h"
#include "tools/cases/case.h"
#include "tools/conformance/kda_agreement.h"
#include "tools/conformance/kda_target.h"

namespace {

namespace cases = fla::cases;
using fla::conformance::KdaTarget;

struct Golden {
  std::string name, function, backend;
};

/// Every file with both functions, on the original kernel and on every backend that is available.
std::vector<Golden> goldens() {
  std::vector<std::string> backends{"original"};
  for (const fla::OpStatus& op : fla::ops()) {
    if (op.name != "kda") continue;
    for (const fla::BackendStatus& backend : op.backends) {
      if (backend.available) backends.emplace_back(backend.info.name);
    }
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FLA_GOLDEN_DIR)) {
    const std::string name = entry.path().stem().string();
    if (name.starts_with("kda")) names.push_back(name);
  }
  std::ranges::sort(names);
  std::vector<Golden> found;
  for (const std::string& name : names) {
    for (const std::string& backend : backends) {
      for (const std::string_view function : fla::conformance::kKdaFunctions) {
        found.push_back({name, std::string(function), backend});
      }
    }
  }
  return found;
}

class KdaGolden : public testing::TestWithParam<Golden> {};

TEST_P(KdaGolden, Agrees) {
  const auto& [name, function, backend] = GetParam();
  const cases::Case golden =
      cases::read_case(std::string(FLA_GOLDEN_DIR) + "/" + name + ".safetensors", "kda");
  const auto& args = golden.args_as<fla::KdaArgs>();
  const KdaTarget target{function, backend};
  if (const auto answer = target.ask(args); !answer.takes())
    GTEST_SKIP() << answer.state << ": " << answer.reason;
  const cases::KdaReference expected = fla::conformance::expected_of(golden);
  ASSERT_FALSE(expected.o.empty());
  EXPECT_EQ(args.output_final_state, !expected.final_state.empty());
  EXPECT_EQ(fla::conformance::disagreement(target.run(args), expected, args), "");
}

INSTANTIATE_TEST_SUITE_P(Files, KdaGolden, testing::ValuesIn(goldens()), [](const auto& test) {
  return test.param.name + "_" + test.param.function + "_" + test.param.backend;
});

}  // namespace
