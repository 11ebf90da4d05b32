#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fla/dispatch/config/config.h"
#include "tests/core/child_process.h"
#include "tests/dispatch/captured_log.h"
#include "tests/dispatch/config/config_in_force.h"
#include "tests/dispatch/config/ruled.h"

namespace {

using fla::ConfigChange;
using fla_test::add_ruled;
using fla_test::ConfigInForce;
using fla_test::ruled_backend;

/// Hears of every change and lets the test wait for one.
class Changes {
 public:
  /// The next one; those of a test are told in their order.
  ConfigChange next() {
    std::unique_lock lock(told_->mutex);
    told_->arrived.wait(lock, [this] { return taken_ < told_->changes.size(); });
    return told_->changes[taken_++];
  }
  std::size_t count() {
    const std::lock_guard lock(told_->mutex);
    return told_->changes.size();
  }

 private:
  struct Told {
    std::mutex mutex;
    std::condition_variable arrived;
    std::vector<ConfigChange> changes;
  };

  std::shared_ptr<Told> told_ = std::make_shared<Told>();  // a callback may end after its subscription
  std::size_t taken_ = 0;
  fla::Subscription subscription_ = fla::on_config_change([told = told_](const ConfigChange& change) {
    const std::lock_guard lock(told->mutex);
    told->changes.push_back(change);
    told->arrived.notify_all();
  });
};

class Watch : public testing::Test {
 protected:
  fla::RegisteredBackend alpha_ = add_ruled("alpha", 1);
  fla::RegisteredBackend beta_ = add_ruled("beta", 2);
};

const std::string kNoAlpha = "deny = ['alpha']\n", kNoBeta = "deny = ['beta']\n";

TEST_F(Watch, FileThatIsRenamedIntoPlaceIsTaken) {
  const ConfigInForce config(kNoAlpha);
  Changes changes;
  ASSERT_EQ(ruled_backend(), "beta");
  config.replace(kNoBeta);
  const ConfigChange change = changes.next();
  EXPECT_TRUE(change.accepted);
  EXPECT_EQ(change.path, config.path());
  EXPECT_EQ(change.policy, (fla::Policy{.deny = {{"beta"}}}));
  EXPECT_EQ(change.rules, 0u);
  EXPECT_EQ(ruled_backend(), "alpha");
}

TEST_F(Watch, FileThatIsWrittenIntoIsTakenWhenItIsClosed) {
  const ConfigInForce config(kNoAlpha);
  Changes changes;
  {
    std::ofstream file(config.path());  // empty by now, which is a valid file
    file << "deny = ['be" << std::flush << "ta']\n" << std::flush;
  }
  const ConfigChange change = changes.next();
  EXPECT_EQ(change.message, "");
  EXPECT_EQ(change.policy, (fla::Policy{.deny = {{"beta"}}}));
  EXPECT_EQ(ruled_backend(), "alpha");
}

TEST_F(Watch, FileThatIsWrongIsRefusedWithOneLineInTheLog) {
  const ConfigInForce config(kNoAlpha);
  Changes changes;
  const fla_test::CapturedLog log;
  config.replace("deny = 'beta'\n");
  const ConfigChange refused = changes.next();
  const std::string why = config.path() + ":1: deny: expected an array of backends, got 'beta'";
  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(refused.message, why);
  EXPECT_EQ(ruled_backend(), "beta");
  config.replace("deny = 'beta'\n");  // the same again is not news
  config.replace(kNoBeta);
  EXPECT_TRUE(changes.next().accepted);
  EXPECT_EQ(log.lines(),
            std::vector<std::string>{"warning: [FLA Config] " + why + "; the settings in force stay"});
  EXPECT_EQ(changes.count(), 2u);
}

TEST_F(Watch, FileThatIsGoneChangesNothingAndMayComeBack) {
  const ConfigInForce config(kNoAlpha);
  Changes changes;
  std::filesystem::remove(config.path());
  EXPECT_EQ(changes.next().message, config.path() + ": cannot be read: No such file or directory");
  EXPECT_EQ(ruled_backend(), "beta");
  config.replace(kNoBeta);
  EXPECT_TRUE(changes.next().accepted);
  EXPECT_EQ(ruled_backend(), "alpha");
}

TEST_F(Watch, VetoKeepsTheOldFile) {
  const ConfigInForce config(kNoAlpha);
  Changes changes;
  fla::Subscription veto =
      fla::veto_config([](const ConfigChange&) { return std::optional<std::string>("not now"); });
  config.replace(kNoBeta);
  const ConfigChange refused = changes.next();
  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(refused.message, config.path() + ": vetoed: not now");
  EXPECT_EQ(refused.policy, (fla::Policy{.deny = {{"beta"}}}));
  EXPECT_EQ(ruled_backend(), "beta");
}

TEST_F(Watch, FileBehindALinkIsFollowed) {
  const fla::testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_directory(folder / "b");
  folder.write("a/config.toml", kNoAlpha);
  folder.write("b/config.toml", kNoBeta);
  // As Kubernetes mounts them: the file leads through a folder that is switched at once.
  std::filesystem::create_directory_symlink("a", folder / "data");
  std::filesystem::create_symlink("data/config.toml", folder / "config.toml");
  const fla_test::ReloadedEnvironment environment{{"FLA_CONFIG", folder / "config.toml"}};
  Changes changes;
  ASSERT_EQ(ruled_backend(), "beta");
  std::filesystem::create_directory_symlink("b", folder / "next");
  std::filesystem::rename(folder / "next", folder / "data");
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"beta"}}}));
  EXPECT_EQ(ruled_backend(), "alpha");
  folder.write("b/config.toml", kNoAlpha);  // in another folder than the link
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"alpha"}}}));
}

/// Makes folder/name lead to target, in one step.
void switch_link(const fla::testing::TemporaryFolder& folder, const char* name, const char* target) {
  std::filesystem::create_directory_symlink(target, folder / "next");
  std::filesystem::rename(folder / "next", folder / name);
}

TEST_F(Watch, FileInAFolderThatIsALinkIsFollowed) {
  const fla::testing::TemporaryFolder folder;
  for (const char* release : {"r1", "r2", "r3"}) std::filesystem::create_directory(folder / release);
  folder.write("r1/config.toml", kNoAlpha);
  folder.write("r2/config.toml", kNoBeta);
  folder.write("r3/config.toml", "# the third\n" + kNoBeta);
  // As deployments do: the folder is switched, the file's name stays.
  switch_link(folder, "current", "r1");
  const fla_test::ReloadedEnvironment environment{{"FLA_CONFIG", folder / "current/config.toml"}};
  Changes changes;
  ASSERT_EQ(ruled_backend(), "beta");
  switch_link(folder, "current", "r2");
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"beta"}}}));
  EXPECT_EQ(ruled_backend(), "alpha");
  folder.write("r2/config.toml", kNoAlpha);
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"alpha"}}}));
  switch_link(folder, "current", "r3");
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"beta"}}}));
  folder.write("r2/config.toml", kNoBeta);  // nobody's business any more
  folder.write("r3/config.toml", kNoAlpha);
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"alpha"}}}));
  EXPECT_EQ(changes.count(), 4u);
}

TEST_F(Watch, FolderAboveThatIsReplacedIsFollowed) {
  const fla::testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a/settings");
  std::filesystem::create_directories(folder / "b/settings");
  folder.write("a/settings/config.toml", kNoAlpha);
  folder.write("b/settings/config.toml", kNoBeta);
  const fla_test::ReloadedEnvironment environment{{"FLA_CONFIG", folder / "a/settings/config.toml"}};
  Changes changes;
  ASSERT_EQ(ruled_backend(), "beta");
  std::filesystem::rename(folder / "a", folder / "old");
  EXPECT_FALSE(changes.next().accepted);  // it is gone
  std::filesystem::rename(folder / "b", folder / "a");
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"beta"}}}));
  folder.write("a/settings/config.toml", kNoAlpha);
  EXPECT_EQ(changes.next().policy, (fla::Policy{.deny = {{"alpha"}}}));
}

TEST_F(Watch, IgnoresOtherFilesOfTheFolder) {
  const ConfigInForce config(kNoAlpha);
  Changes changes;
  config.folder().write("other.toml", "nonsense");
  config.replace(kNoBeta);
  EXPECT_TRUE(changes.next().accepted);
  EXPECT_EQ(changes.count(), 1u);
}

TEST_F(Watch, GoesOnFromOneFileToAnother) {
  Changes changes;
  const ConfigInForce first(kNoAlpha);
  {
    const ConfigInForce second(kNoBeta);
    EXPECT_EQ(ruled_backend(), "alpha");
    second.replace(kNoAlpha + "#\n");
    EXPECT_EQ(changes.next().path, second.path());
    EXPECT_EQ(ruled_backend(), "beta");
  }
  first.replace(kNoBeta);
  EXPECT_EQ(changes.next().path, first.path());
  EXPECT_EQ(ruled_backend(), "alpha");
}

TEST_F(Watch, FilesOfRelativePathsAreFollowedFromAnotherFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  const fla::testing::TemporaryFolder folder;
  folder.write("config.toml", kNoAlpha);
  std::filesystem::current_path(folder / "");
  {
    const fla_test::ReloadedEnvironment environment{{"FLA_CONFIG", "config.toml"}};
    std::filesystem::current_path(before);
    Changes changes;
    folder.write("config.toml", kNoBeta);
    EXPECT_EQ(changes.next().path, "config.toml");
    EXPECT_EQ(ruled_backend(), "alpha");
  }
}

TEST_F(Watch, ForkedChildrenKeepTheSettingsAndWatchWhenTheyReadTheEnvironmentAgain) {
  const ConfigInForce config(kNoAlpha);
  ASSERT_EQ(ruled_backend(), "beta");
  EXPECT_EQ(fla_test::outcome_in_child([&] {
              if (ruled_backend() != "beta") return 1;
              Changes changes;
              fla::reload_environment();
              config.replace(kNoBeta);
              if (!changes.next().accepted) return 2;
              return ruled_backend() == "alpha" ? 0 : 3;
            }),
            "exit 0");
}

}  // namespace
