#include "tools/cases/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string_view>

#include "tests/core/child_process.h"
#include "tests/tools/temporary_folder.h"
#include "tools/cases/file_error.h"

namespace fla::cases {
namespace {

using fla_test::outcome_in_child;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::read_bytes;
using testing::TemporaryFolder;

TEST(AtomicFile, AppearsWhenItIsComplete) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.write("one ");
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  file.write("two");
  file.commit();
  EXPECT_EQ(read_bytes(folder / "a"), "one two");
  EXPECT_THAT(folder.contents(), ElementsAre("a"));
}

TEST(AtomicFile, LeavesNothingWithoutACommit) {
  const TemporaryFolder folder;
  { AtomicFile(folder / "a").write("half"); }
  EXPECT_THAT(folder.contents(), IsEmpty());
}

TEST(AtomicFile, KeepsTheOldFileUntilTheNewOneIsComplete) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  { AtomicFile(folder / "a").write("half"); }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
}

TEST(AtomicFile, WritesThroughALink) {
  const TemporaryFolder folder;
  folder.write("target", "old");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  AtomicFile file(folder / "link");
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "target"), "new");
}

void write_all(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string refusal_of(const std::string& path) {
  try {
    AtomicFile::check_writable(path);
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

TEST(AtomicFile, WritesWhatADanglingLinkPointsTo) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "results");
  std::filesystem::create_symlink("results/new", folder / "relative");
  std::filesystem::create_symlink(folder / "relative", folder / "link");
  write_all(folder / "link", "new");
  EXPECT_EQ(std::filesystem::read_symlink(folder / "link"), folder / "relative");
  EXPECT_EQ(std::filesystem::read_symlink(folder / "relative"), "results/new");
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / "results/new")));
  EXPECT_EQ(read_bytes(folder / "results/new"), "new");
}

TEST(AtomicFile, RefusesALinkIntoAMissingFolderAndALinkToItself) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "none/a", folder / "link");
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_EQ(refusal_of(folder / "link"),
            (folder / "link") + ": cannot be written: there is no folder '" + (folder / "none") + "'");
  EXPECT_EQ(refusal_of(folder / "circle"),
            (folder / "circle") + ": cannot be written: Too many levels of symbolic links");
  EXPECT_THAT(folder.contents(), ElementsAre("circle", "link"));
}

TEST(AtomicFile, TakesTheLongestName) {
  const TemporaryFolder folder;
  const std::string name(255, 'a');
  write_all(folder / name, "text");
  EXPECT_THAT(folder.contents(), ElementsAre(name));
}

TEST(AtomicFile, KeepsThePermissionsOfTheFileThatItReplaces) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  folder.write("old", "old");
  fs::permissions(folder / "old", fs::perms{0640});
  write_all(folder / "old", "new");
  EXPECT_EQ(fs::status(folder / "old").permissions(), fs::perms{0640});
  write_all(folder / "new", "new");
  folder.write("plain", "made without AtomicFile");
  EXPECT_EQ(fs::status(folder / "new").permissions(), fs::status(folder / "plain").permissions());
}

TEST(AtomicFile, RefusesAFileThatMayNotBeWritten) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  folder.write("locked", "old");
  fs::permissions(folder / "locked", fs::perms{0444});
  const std::string expected = (folder / "locked") + ": cannot be written: Permission denied";
  EXPECT_EQ(outcome_in_child([&] {
              // Root may write anything; its capabilities are what allows it.
              __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
              std::array<__user_cap_data_struct, 2> none{};
              if (::syscall(SYS_capset, &header, none.data()) != 0) return 2;
              return refusal_of(folder / "locked") == expected ? 0 : 1;
            }),
            "exit 0");
}

class InterruptedFile : public ::testing::TestWithParam<int> {
 protected:
  static void expect_signal() {
    ::signal(GetParam(), SIG_DFL);
    constexpr rlimit kNoCore{0, 0};
    ::setrlimit(RLIMIT_CORE, &kNoCore);
  }
};

TEST_P(InterruptedFile, LeavesNothingAndKeepsTheSignal) {
  const TemporaryFolder folder;
  folder.write("old", "old");
  for (const char* name : {"new", "old"}) {
    EXPECT_EQ(outcome_in_child([&] {
                expect_signal();
                AtomicFile file(folder / name);
                file.write("half");
                ::raise(GetParam());
                file.write("the other half");
                file.commit();
                return 0;
              }),
              "signal " + std::to_string(GetParam()));
    EXPECT_THAT(folder.contents(), ElementsAre("old"));
    EXPECT_EQ(read_bytes(folder / "old"), "old");
  }
}

/// As under nohup.
TEST_P(InterruptedFile, IsWrittenWhenTheSignalIsIgnored) {
  const TemporaryFolder folder;
  EXPECT_EQ(outcome_in_child([&] {
              ::signal(GetParam(), SIG_IGN);
              AtomicFile file(folder / "a");
              ::raise(GetParam());
              file.write("whole");
              file.commit();
              return 0;
            }),
            "exit 0");
  EXPECT_EQ(read_bytes(folder / "a"), "whole");
}

TEST_P(InterruptedFile, TakesEffectAfterTheLastOfTwoFiles) {
  const TemporaryFolder folder;
  EXPECT_EQ(outcome_in_child([&] {
              expect_signal();
              AtomicFile first(folder / "a");
              { AtomicFile(folder / "b").write("half"); }
              ::raise(GetParam());
              { AtomicFile(folder / "c"); }
              first.commit();
              return 0;
            }),
            "signal " + std::to_string(GetParam()));
  EXPECT_THAT(folder.contents(), ElementsAre("a"));
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptedFile,
                         ::testing::Values(SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ),
                         [](const auto& signal) { return "Signal" + std::to_string(signal.param); });

TEST(AtomicFile, WritesToADeviceWithoutReplacingIt) {
  AtomicFile file("/dev/null");
  file.write("gone");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(AtomicFile, ReportsAFullDisk) {
  AtomicFile file("/dev/full");
  EXPECT_THROW(file.write("too much"), FileError);
}

TEST(AtomicFile, RefusesAFolderAndAMissingFolder) {
  const TemporaryFolder folder;
  EXPECT_THROW(AtomicFile(folder / ""), FileError);
  EXPECT_THROW(AtomicFile(folder / "missing/a"), FileError);
  EXPECT_THROW(AtomicFile(""), FileError);
  EXPECT_THAT(folder.contents(), IsEmpty());
}

}  // namespace
}  // namespace fla::cases
