#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/case.h"
#include "tools/fla/chosen_backend.h"

namespace {

namespace cases = fla::cases;

struct Golden {
  std::string file, function, backend;
  cases::Direction direction;
};

std::string path_of(const std::string& file) {
  return std::string(FLA_GOLDEN_DIR) + "/" + file + ".safetensors";
}

std::vector<std::string> backends_of(std::string_view op) {
  std::vector<std::string> backends{"original"};
  for (const fla::OpStatus& status : fla::ops()) {
    if (status.name != op) continue;
    for (const fla::BackendStatus& backend : status.backends) {
      if (backend.available) backends.emplace_back(backend.info.name);
    }
  }
  return backends;
}

/// Whether the backend has such a function at all.
bool has(const cases::Case& golden, std::string_view function, const std::string& backend) {
  if (backend == fla::command::kOriginal) return true;
  const fla::Explanation explanation = golden.op->explain(function, golden.args.get());
  const auto row = std::ranges::find(explanation.rows, backend, &fla::Explanation::Row::name);
  return row != explanation.rows.end() && row->state != "not_implemented";
}

/// Every file with every function of its op that it has results of, on the original kernel and on every
/// backend that is available.
std::vector<Golden> goldens() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(FLA_GOLDEN_DIR))
    files.push_back(entry.path().stem().string());
  std::ranges::sort(files);
  std::vector<Golden> found;
  for (const std::string& file : files) {
    for (const auto direction : {cases::Direction::forward, cases::Direction::backward}) {
      const cases::Case golden = cases::read_case(path_of(file), "", {}, direction);
      if (golden.expected.empty()) continue;
      for (const std::string& backend : backends_of(golden.op->name)) {
        for (const std::string_view function : golden.op->functions) {
          if (has(golden, function, backend))
            found.push_back({file, std::string(function), backend, direction});
        }
      }
    }
  }
  return found;
}

class GoldenCase : public testing::TestWithParam<Golden> {};

TEST_P(GoldenCase, Agrees) {
  const auto& [file, function, backend, direction] = GetParam();
  const cases::Case golden = cases::read_case(path_of(file), "", {}, direction);
  EXPECT_EQ(golden.warnings, std::vector<std::string>());
  const cases::Op& op = *golden.op;
  if (backend != fla::command::kOriginal) {
    const fla::Explanation explanation = op.explain(function, golden.args.get());
    const auto row = std::ranges::find(explanation.rows, backend, &fla::Explanation::Row::name);
    ASSERT_NE(row, explanation.rows.end());
    if (row->state != "selected" && row->state != "accepted")
      GTEST_SKIP() << row->state << ": " << row->reason;
  }
  const fla::ScopedPolicy scope(fla::policy_for(op.name, backend));
  const std::vector<cases::NamedTensor> results = cases::run(golden, function);
  ASSERT_EQ(results.size(), golden.expected.size());
  const fla::DType dtype = op.arguments.front().tensor(static_cast<const void*>(golden.args.get())).dtype();
  const double tolerance =
      direction == cases::Direction::backward ? cases::gradient_tolerance(dtype) : cases::tolerance(dtype);
  for (const cases::NamedTensor& expected : golden.expected) {
    const auto result = std::ranges::find(results, expected.name, &cases::NamedTensor::name);
    ASSERT_NE(result, results.end()) << expected.name;
    EXPECT_LE(cases::relative_error(result->tensor, expected.tensor), tolerance) << expected.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenCase, testing::ValuesIn(goldens()), [](const auto& test) {
  return test.param.file + "_" + test.param.function + "_" + test.param.backend;
});

}  // namespace
