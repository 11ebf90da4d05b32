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
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr unsigned kCaller = 65534;

/// A copy of the program, which anybody may run; with the setuid bit as root.
std::string copy_program(const PluginFolder& folder, const std::string& name, unsigned mode) {
  const std::string path = folder / name;
  std::filesystem::copy_file(FLA_PLUGIN_STEPS, path);
  EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  return path;
}

std::string run(const std::string& program, std::vector<std::string> steps,
                const std::map<std::string, std::string>& variables) {
  steps.insert(steps.begin(), program);
  const fla::testing::Outcome outcome =
      fla::testing::run_program(steps, {.variables = variables, .user = kCaller});
  return outcome.out + outcome.err + "exit " + std::to_string(outcome.code);
}

TEST(PrivilegedProcess, IgnoresEveryVariableThatNamesCodeOrAFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a setuid program and run it as somebody else";
  const PluginFolder folder;
  const std::string raised = copy_program(folder, "raised", 04755),
                    plain = copy_program(folder, "plain", 0755);
  const std::string said = run(raised, {"secure"}, {});
  if (said != "secure: 1\nexit 0")
    GTEST_SKIP() << "this machine's setuid programs get no more rights (nosuid, no_new_privs): " << said;

  const std::string acme = folder.copy("acme");
  const std::vector<std::string> steps{"plugins", "kda=64"};
  EXPECT_THAT(run(plain, steps, {{"FLA_PLUGIN_PATH", acme}}), HasSubstr("plugins: acme found\nkda: acme\n"));
  EXPECT_EQ(run(raised, steps, {{"FLA_PLUGIN_PATH", acme}}), "plugins: none\nkda: ran\nexit 0");

  const std::map<std::string, std::string> config{{"FLA_CONFIG", folder / "missing.toml"}};
  EXPECT_THAT(run(plain, steps, config), HasSubstr("kda: error: FLA_CONFIG: "));
  EXPECT_EQ(run(raised, steps, config), "plugins: none\nkda: ran\nexit 0");

#ifdef FLA_TEST_NVTX_INJECTION
  std::map<std::string, std::string> profiler{{"NVTX_INJECTION64_PATH", FLA_TEST_NVTX_INJECTION}};
  EXPECT_THAT(run(plain, steps, profiler), HasSubstr("domain fla\n"));
  EXPECT_EQ(run(raised, steps, profiler), "plugins: none\nkda: ran\nexit 0");
  profiler["FLA_NVTX"] = "1";
  EXPECT_EQ(run(raised, steps, profiler), "plugins: none\nkda: ran\nexit 0");
#endif

  EXPECT_THAT(run(raised, steps, {{"FLA_DISABLE_BACKEND_DISPATCH", "1"}}), HasSubstr("kda: original\n"))
      << "what names neither is obeyed";
}

TEST(PrivilegedProcess, LoadsNothingOfItsCallers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a setuid program and run it as somebody else";
  const PluginFolder folder;
  const std::string raised = copy_program(folder, "raised", 04755), acme = folder.copy("acme");
  const std::string said = run(raised, {"secure"}, {});
  if (said != "secure: 1\nexit 0")
    GTEST_SKIP() << "this machine's setuid programs get no more rights (nosuid, no_new_privs): " << said;
  EXPECT_THAT(run(raised, {"load=" + acme}, {}), HasSubstr("load: found\n"));
  ASSERT_EQ(::chown(acme.c_str(), kCaller, kCaller), 0);
  EXPECT_THAT(run(raised, {"load=" + acme}, {}), HasSubstr("load: refused: belongs to user 65534"));
}

}  // namespace
