#include "tools/cases/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/temporary_folder.h"
#include "tools/cases/file_error.h"

namespace fla::cases {
namespace {

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
