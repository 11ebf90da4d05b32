#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/plugins/plugin_folder.h"
#include "tests/tools/program.h"

/// What a process does with its environment that has more rights than whoever started it.
namespace {

using fla_test::PluginFolder;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

constexpr unsigned kCaller = 65534;

/// A copy of the program, which anybody may run.
std::string copy_program(const PluginFolder& folder) {
  const std::string path = folder / "steps";
  std::filesystem::copy_file(FLA_PLUGIN_STEPS, path);
  EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
  return path;
}

class PrivilegedProcess : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can run a program as somebody else";
    const std::string said = raised({"secure"});
    if (said == "secure: 0\nexit 0") GTEST_SKIP() << "programs get no more rights here (no_new_privs)";
    ASSERT_EQ(said, "secure: 1\nexit 0");
  }

  std::string plain(const std::vector<std::string>& steps, const Variables& variables = {}) const {
    return run(steps, variables, false);
  }
  std::string raised(const std::vector<std::string>& steps, const Variables& variables = {}) const {
    return run(steps, variables, true);
  }

  const PluginFolder folder;

 private:
  std::string run(std::vector<std::string> steps, const Variables& variables, bool raised) const {
    steps.insert(steps.begin(), program_);
    const fla::testing::Outcome outcome =
        fla::testing::run_program(steps, {.variables = variables, .user = kCaller, .raised = raised});
    return outcome.out + outcome.err + "exit " + std::to_string(outcome.code);
  }

  const std::string program_ = copy_program(folder);
};

TEST_F(PrivilegedProcess, IgnoresEveryVariableThatNamesCodeOrAFile) {
  const std::string acme = folder.copy("acme");
  const std::vector<std::string> steps{"plugins", "kda=64"};
  EXPECT_THAT(plain(steps, {{"FLA_PLUGIN_PATH", acme}}), HasSubstr("plugins: acme found\nkda: acme\n"));
  EXPECT_EQ(raised(steps, {{"FLA_PLUGIN_PATH", acme}}), "plugins: none\nkda: ran\nexit 0");

  const Variables config{{"FLA_CONFIG", folder / "missing.toml"}};
  EXPECT_THAT(plain(steps, config), HasSubstr("kda: error: FLA_CONFIG: "));
  EXPECT_EQ(raised(steps, config), "plugins: none\nkda: ran\nexit 0");

#ifdef FLA_TEST_NVTX_INJECTION
  Variables profiler{{"NVTX_INJECTION64_PATH", FLA_TEST_NVTX_INJECTION}};
  EXPECT_THAT(plain(steps, profiler), HasSubstr("domain fla\n"));
  EXPECT_EQ(raised(steps, profiler), "plugins: none\nkda: ran\nexit 0");
  profiler["FLA_NVTX"] = "1";
  EXPECT_EQ(raised(steps, profiler), "plugins: none\nkda: ran\nexit 0");
#endif

  EXPECT_THAT(raised(steps, {{"FLA_DISABLE_BACKEND_DISPATCH", "1"}}), HasSubstr("kda: original\n"))
      << "what names neither is obeyed";
}

TEST_F(PrivilegedProcess, LoadsNothingOfItsCallers) {
  const std::string acme = folder.copy("acme");
  EXPECT_THAT(raised({"load=" + acme}), HasSubstr("load: found\n"));
  ASSERT_EQ(::chown(acme.c_str(), kCaller, kCaller), 0);
  EXPECT_THAT(raised({"load=" + acme}), HasSubstr("load: refused: belongs to user 65534"));
}

}  // namespace
