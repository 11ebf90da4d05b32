#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/config/config.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/captured_log.h"
#include "tests/dispatch/config/config_in_force.h"
#include "tests/dispatch/config/ruled.h"

namespace {

using fla::ConfigChange;
using fla::ConfigError;
using fla_test::add_ruled;
using fla_test::ConfigInForce;
using fla_test::error_text;
using fla_test::ruled_backend;

/// What reload_config() does on this thread. The watching thread sees the same changes, so that callbacks may
/// run there, too; tests note what happens here.
class Reload : public testing::Test {
 protected:
  fla::RegisteredBackend alpha_ = add_ruled("alpha", 1);
  fla::RegisteredBackend beta_ = add_ruled("beta", 2);
};

TEST_F(Reload, AppliesTheChangedFile) {
  const ConfigInForce config("deny = ['alpha']\n");
  ASSERT_EQ(ruled_backend(), "beta");
  config.replace("deny = ['beta']\n");
  fla::reload_config();
  EXPECT_EQ(ruled_backend(), "alpha");
  EXPECT_EQ(fla::current_policy(), (fla::Policy{.deny = {{"beta"}}}));
}

TEST_F(Reload, WithoutAFileIsAnError) {
  EXPECT_EQ(error_text<ConfigError>([] { fla::reload_config(); }), "reload_config: FLA_CONFIG names no file");
}

TEST_F(Reload, OfAFileThatIsWrongChangesNothing) {
  const ConfigInForce config("deny = ['alpha']\n");
  config.replace("deny = ['beta']\norder = 3\n");
  EXPECT_EQ(error_text<ConfigError>([] { fla::reload_config(); }),
            config.path() + ":2: order: expected a table with an array of backends for each op, got 3");
  EXPECT_EQ(ruled_backend(), "beta");
}

TEST_F(Reload, OfAFileThatIsGoneChangesNothing) {
  const ConfigInForce config("deny = ['alpha']\n");
  std::filesystem::remove(config.path());
  EXPECT_EQ(error_text<ConfigError>([] { fla::reload_config(); }),
            config.path() + ": cannot be read: No such file or directory");
  EXPECT_EQ(ruled_backend(), "beta");
}

TEST_F(Reload, AsksVetoesBeforeAnythingChanges) {
  const ConfigInForce config("deny = ['alpha']\n");
  const std::thread::id here = std::this_thread::get_id();
  std::vector<std::string> asked;
  const fla::Subscription veto =
      fla::veto_config([&asked, here](const ConfigChange& change) -> std::optional<std::string> {
        if (std::this_thread::get_id() == here)
          asked.push_back(change.path + " " + std::to_string(change.rules) + " " +
                          std::string(ruled_backend()));
        return "beta stays";
      });
  config.replace("deny = ['beta']\n[[rule]]\nop = 'ruled'\norder = ['alpha']\n");
  EXPECT_EQ(error_text<ConfigError>([] { fla::reload_config(); }), config.path() + ": vetoed: beta stays");
  EXPECT_EQ(asked, std::vector<std::string>{config.path() + " 1 beta"});
  EXPECT_EQ(ruled_backend(), "beta");
}

TEST_F(Reload, VetoThatThrowsIsAVeto) {
  const ConfigInForce config("deny = ['alpha']\n");
  const fla::Subscription veto = fla::veto_config(
      [](const ConfigChange&) -> std::optional<std::string> { throw std::runtime_error("no way"); });
  config.replace("deny = ['beta']\n");
  EXPECT_EQ(error_text<ConfigError>([] { fla::reload_config(); }),
            config.path() + ": vetoed: the callback threw: no way");
}

TEST_F(Reload, VetoEndsWithItsSubscription) {
  const ConfigInForce config("deny = ['alpha']\n");
  fla::Subscription veto =
      fla::veto_config([](const ConfigChange&) { return std::optional<std::string>("no"); });
  EXPECT_THROW(fla::reload_config(), ConfigError);
  veto.reset();
  EXPECT_NO_THROW(fla::reload_config());
}

TEST_F(Reload, EnvironmentAsksNoVeto) {
  const fla::Subscription veto =
      fla::veto_config([](const ConfigChange&) { return std::optional<std::string>("no"); });
  const ConfigInForce config("deny = ['alpha']\n");
  EXPECT_EQ(ruled_backend(), "beta");
}

TEST_F(Reload, CallbacksMayCallTheLibrary) {
  const ConfigInForce config("deny = ['alpha']\n");
  const std::thread::id here = std::this_thread::get_id();
  int depth = 0;
  std::string_view selected;
  const fla::Subscription told = fla::on_config_change([&depth, &selected, here](const ConfigChange& change) {
    if (std::this_thread::get_id() != here || !change.accepted || depth > 0) return;
    ++depth;
    selected = ruled_backend();
    fla::set_policy({.on_failure = fla::OnFailure::fallback});
    fla::reload_config();
    --depth;
  });
  fla::reload_config();  // unchanged: the watching thread has nothing to do with it
  EXPECT_EQ(selected, "beta");
  fla::set_policy({});
}

TEST_F(Reload, ListenerThatThrowsIsLoggedAndTheOthersAreTold) {
  const ConfigInForce config("deny = ['alpha']\n");
  int told = 0;
  const fla::Subscription throwing =
      fla::on_config_change([](const ConfigChange&) { throw std::runtime_error("oh"); });
  const fla::Subscription counting = fla::on_config_change([&](const ConfigChange&) { ++told; });
  const fla_test::CapturedLog log;
  fla::reload_config();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(log.lines(), std::vector<std::string>{"warning: [FLA Config] a listener threw: oh"});
}

}  // namespace
