#include "fla/dispatch/plugins/path_safety.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/plugins/plugin_folder.h"

namespace {

namespace fs = std::filesystem;
using fla::dispatch::Trust;
using fla::dispatch::unsafe;
using fla_test::PluginFolder;

/// What a process says that loaded libfla from elsewhere, so that every folder of a test is judged.
std::string verdict(const std::string& path) {
  return unsafe(path, {.owners = {0, ::geteuid()}, .library_folder = "/nowhere"});
}

void set_mode(const std::string& path, unsigned mode) { ASSERT_EQ(::chmod(path.c_str(), mode), 0); }

std::string others_may_write(const std::string& how, const std::string& folder, const char* mode) {
  return how + " " + folder + ", which others than its owner and root may write to (mode " + mode + ")";
}

/// A folder inside a folder with a file in it: outer/inner/plugin.so
struct Nested : PluginFolder {
  Nested() {
    for (const std::string& each : {outer, inner}) {
      fs::create_directory(each);
      set_mode(each, 0755);
    }
    write("outer/inner/plugin.so", "");
    set_mode(file, 0755);
  }
  std::string outer = *this / "outer", inner = *this / "outer/inner", file = *this / "outer/inner/plugin.so";
};

TEST(PathSafety, FileThatOnlyItsOwnerMayWriteToIsSafe) {
  const Nested nested;
  for (const unsigned mode : {0644u, 0755u, 0400u}) {
    set_mode(nested.file, mode);
    EXPECT_EQ(verdict(nested.file), "");
  }
}

TEST(PathSafety, FolderFarAboveThatOthersMayWriteToIsRefused) {
  const Nested nested;
  for (const auto& [mode, text] :
       {std::pair{0777u, "0777"}, std::pair{0775u, "0775"}, std::pair{0757u, "0757"}}) {
    set_mode(nested.outer, mode);
    EXPECT_EQ(verdict(nested.file), others_may_write("is reached through", nested.outer, text));
  }
}

TEST(PathSafety, StickyFolderIsFineOnTheWayButNotAsThePluginsOwn) {
  const Nested nested;
  set_mode(nested.outer, 01777);
  EXPECT_EQ(verdict(nested.file), "");
  set_mode(nested.outer, 0755);
  set_mode(nested.inner, 01777);
  EXPECT_EQ(verdict(nested.file), others_may_write("lies in", nested.inner, "1777"));
}

TEST(PathSafety, LinkThroughAFolderThatOthersMayWriteToIsRefused) {
  const Nested nested;
  fs::create_directory(nested / "open");
  fs::create_directory_symlink(nested.inner, nested / "open/way");
  fs::create_directory_symlink("open/way", nested / "link");
  EXPECT_EQ(verdict(nested / "link/plugin.so"), "");
  set_mode(nested / "open", 0777);
  EXPECT_EQ(verdict(nested / "link/plugin.so"),
            others_may_write("is reached through", nested / "open", "0777"));
  EXPECT_EQ(verdict(nested.file), "") << "by a way that nobody can change";
}

TEST(PathSafety, LinksThatLeadNowhereOrInCirclesAreSaid) {
  const Nested nested;
  fs::create_symlink(nested / "b.so", nested / "a.so");
  EXPECT_EQ(verdict(nested / "a.so"), "cannot be read: No such file or directory");
  fs::create_symlink(nested / "a.so", nested / "b.so");
  EXPECT_EQ(verdict(nested / "a.so"), "cannot be read: Too many levels of symbolic links");
}

TEST(PathSafety, FoldersThatLibflaItselfLiesInAreNotJudged) {
  const Nested nested;
  set_mode(nested.outer, 0777);
  const Trust trust{.owners = {0, ::geteuid()}, .library_folder = nested.outer};
  EXPECT_EQ(unsafe(nested.file, trust), "");
  set_mode(nested.inner, 0777);
  EXPECT_EQ(unsafe(nested.file, trust), others_may_write("lies in", nested.inner, "0777"));
}

TEST(PathSafety, WhatBelongsToAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kOther = 65534;
  const std::string why = "belongs to user 65534, who is neither root nor the user of this process";
  const auto give = [](const std::string& path) { ASSERT_EQ(::lchown(path.c_str(), kOther, kOther), 0); };
  {
    const Nested nested;
    give(nested.file);
    EXPECT_EQ(verdict(nested.file), why);
  }
  {
    const Nested nested;
    give(nested.inner);
    EXPECT_EQ(verdict(nested.file), "lies in " + nested.inner + ", which " + why);
  }
  {
    const Nested nested;
    give(nested.outer);
    EXPECT_EQ(verdict(nested.file), "is reached through " + nested.outer + ", which " + why);
  }
  {
    const Nested nested;
    fs::create_symlink(nested.file, nested / "link.so");
    give(nested / "link.so");
    EXPECT_EQ(verdict(nested / "link.so"),
              "is reached through the link " + (nested / "link.so") + ", which " + why);
  }
}

TEST(PathSafety, RootAndTheUserAreTrusted) {
  const Trust trust = Trust::of_process();
  EXPECT_NE(std::find(trust.owners.begin(), trust.owners.end(), 0u), trust.owners.end());
  EXPECT_NE(std::find(trust.owners.begin(), trust.owners.end(), ::geteuid()), trust.owners.end());
}

}  // namespace
