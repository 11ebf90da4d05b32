#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/tools/temporary_folder.h"

namespace {

int feed(const std::string& folder, void (*fuzzed)(std::string_view)) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FLA_CORPUS + folder)) {
    SCOPED_TRACE(entry.path().string());
    fuzzed(fla::testing::read_bytes(entry.path()));
    ++files;
  }
  return files;
}

TEST(Corpus, OfConditionsIsTakenOrRefused) { EXPECT_GT(feed("/condition", fla_test::fuzz_condition), 20); }

TEST(Corpus, OfConfigFilesIsTakenOrRefused) { EXPECT_GT(feed("/config", fla_test::fuzz_config), 20); }

}  // namespace
