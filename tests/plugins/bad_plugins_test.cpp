#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/plugins/plugin.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/captured_log.h"
#include "tests/plugins/plugin_folder.h"

namespace {

using fla_test::PluginFolder;
using testing::ElementsAre;

struct Call {
  fla::Tensor x = fla::Tensor::zeros({1, 2, 1, 8}, fla::DType::f32),
              beta = fla::Tensor::zeros({1, 2, 1}, fla::DType::f32);
  fla::KdaArgs args{.q = x, .k = x, .v = x, .g = x, .beta = beta};
};

/// What explain says of that file, in as many rows as there are.
std::string row_of(const std::string& path) {
  const Call call;
  const std::string begin = "plugin " + path + ": ";
  std::string text;
  for (const fla::Explanation::Row& row : fla::explain("kda", "chunk_kda", call.args).rows) {
    if (row.reason.starts_with(begin)) text += row.state + ": " + row.reason.substr(begin.size());
  }
  return text;
}

fla::PluginStatus status_of(const std::string& path) {
  for (const fla::PluginStatus& plugin : fla::plugins()) {
    if (plugin.path == path) return plugin;
  }
  return {};
}

/// The plugin must be refused for this reason, wherever one may look, and kda must go on.
void expect_refused(const std::string& path, const std::string& reason) {
  const fla_test::CapturedLog log;
  const Call call;
  (void)fla::chunk_kda(call.args);  // so that the plugin is loaded at once
  const fla::PluginStatus status = fla::load_plugin(path);
  EXPECT_EQ(status.state, "refused");
  EXPECT_EQ(status.reason, reason);
  EXPECT_EQ(status_of(path).reason, reason);
  EXPECT_EQ(row_of(path), "unavailable: " + reason);
  EXPECT_THAT(log.lines(), ElementsAre("warning: [FLA Plugin] " + path + " refused: " + reason));
  (void)fla::load_plugin(path);
  fla::reload_environment();
  EXPECT_EQ(log.lines().size(), 1u) << "told once";
  EXPECT_EQ(row_of(path), "unavailable: " + reason) << "listed once";
  EXPECT_EQ(fla::chunk_kda(call.args).o.numel(), 16);
}

struct Bad {
  std::string name, reason;
  std::vector<std::string> events;
};

class BadPlugin : public testing::TestWithParam<Bad> {};

TEST_P(BadPlugin, IsRefusedWithItsReasonAndClosed) {
  const PluginFolder folder;
  const fla_test::ScopedEnvironment environment({{"PLUGIN_EVENTS", folder.events_file()}});
  expect_refused(folder.copy("defective", GetParam().name), GetParam().reason);
  EXPECT_EQ(folder.events(), GetParam().events);
}

const std::string kSize = std::to_string(sizeof(fla::KdaArgs));
const std::vector<std::string> kUnread{"opened", "closed"}, kRead{"opened", "freed", "closed"},
    kRegistered{"opened", "registered", "freed", "closed"};

const Bad kBad[] = {
    {"returns_nothing", "fla_plugin() returned no descriptor", kUnread},
    {"throws_early", "fla_plugin() threw: on purpose", kUnread},
    {"abi", "was built for plugin ABI 7, this library has 4", kRead},
    {"toolchain",
     "was built with toolchain 'libc++ abi1 riscv64', this library with '" +
         std::string(fla::dispatch::kToolchain) + "'",
     kRead},
    {"version", "was built for fla 0.2.0, this is fla 0.1.0", kRead},
    {"no_version", "its descriptor has no library_version", kRead},
    {"no_name", "its descriptor has no name", kRead},
    {"no_ops", "its descriptor has no ops", kRead},
    {"unnamed_op", "its descriptor has an op without a name", kRead},
    {"no_register", "its descriptor has no register_backends", kRead},
    {"no_free", "its descriptor has no free", kUnread},
    {"size",
     "its arguments of kda have " + std::to_string(sizeof(fla::KdaArgs) + 16) +
         " bytes, this library's have " + kSize,
     kRegistered},
    {"slot_size",
     "slot_size's chunk_kda takes arguments of " + std::to_string(sizeof(fla::KdaArgs) + 8) +
         " bytes, kda's are " + kSize,
     kRegistered},
    {"missing_op", "it serves op 'nothing', which does not exist", kRegistered},
    {"missing_function", "it serves kda.nothing, which does not exist", kRegistered},
    {"unknown_op", "it serves op 'nothing', which does not exist", kRegistered},
    {"throws", "its register function threw: no licence", kRegistered},
    {"throws_int", "its register function threw something that is no std::exception", kRegistered},
    {"registers_nothing", "registers no backend and no function", kRegistered},
    {"duplicate", "it brings backend 'cpu_simd', which op kda has already", kRegistered},
    {"original",
     "it brings a backend named 'original', which is what the op's own kernel is called: choose another name",
     kRegistered},
    {"twice", "it brings backend 'twice', which op kda has already", kRegistered},
};

INSTANTIATE_TEST_SUITE_P(Written, BadPlugin, testing::ValuesIn(kBad),
                         [](const auto& test) { return test.param.name; });

TEST(BadPluginFile, WithoutTheFunctionIsRefusedBeforeItsCodeRuns) {
  const PluginFolder folder;
  const fla_test::ScopedEnvironment environment({{"PLUGIN_EVENTS", folder.events_file()}});
  expect_refused(folder.copy("no_symbol"), "has no function fla_plugin");
  EXPECT_THAT(folder.events(), ElementsAre());
}

TEST(BadPluginFile, ThatLacksADependencySaysWhich) {
  const PluginFolder folder;
  const std::string path = folder.copy("needs_dependency");
  expect_refused(
      path,
      "cannot be loaded: libfla_test_dependency.so: cannot open shared object file: No such file or "
      "directory");
}

TEST(BadPluginFile, ThatIsNoLibrary) {
  const PluginFolder folder;
  expect_refused(folder.write("text.so", "#!/bin/sh\necho a plugin, honestly\n"),
                 "is no shared library: it does not begin as an ELF file does");
  expect_refused(folder.write("empty.so", ""), "is no shared library: it does not begin as an ELF file does");
}

TEST(BadPluginFile, ThatWasCutShort) {
  const PluginFolder folder;
  const std::string path = folder.copy("no_symbol", "cut");
  std::filesystem::resize_file(path, 200);
  expect_refused(path, "is cut short or damaged: its program headers cannot be read");
  const std::string longer = folder.copy("no_symbol", "longer");
  std::filesystem::resize_file(longer, 4000);
  EXPECT_THAT(fla::load_plugin(longer).reason,
              testing::MatchesRegex("is cut short: [0-9]+ bytes of it are to be loaded, it has 4000"));
}

TEST(BadPluginFile, ThatIsAFolder) {
  const PluginFolder folder;
  std::filesystem::create_directory(folder / "folder.so");
  expect_refused(folder / "folder.so", "is no file");
}

TEST(BadPluginFile, ThatIsNotThereIsAnError) {
  const PluginFolder folder;
  const std::string path = folder / "missing.so";
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { (void)fla::load_plugin(path); }),
            "path: expected a plugin's file, got '" + path + "': No such file or directory");
  EXPECT_EQ(status_of(path).path, "") << "there is nothing to list";
}

TEST(BadPluginFile, ThatOthersMayWriteTo) {
  for (const int mode : {0775, 0757, 0777}) {
    const PluginFolder folder;
    const std::string path = folder.copy("acme", "loose");
    std::filesystem::permissions(path, std::filesystem::perms{static_cast<unsigned>(mode)});
    char text[8];
    std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode));
    expect_refused(path, "others than its owner and root may write to it (mode " + std::string(text) + ")");
  }
}

TEST(BadPluginFile, InAFolderThatOthersMayWriteTo) {
  const PluginFolder folder;
  const std::string path = folder.copy("acme", "exposed");
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0777});
  expect_refused(
      path, "lies in " + folder.path() + ", which others than its owner and root may write to (mode 0777)");
}

TEST(BadPluginFile, BehindALinkIsJudgedWhereItLies) {
  const PluginFolder folder, links;
  const std::string path = folder.copy("acme", "target");
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0775});
  std::filesystem::create_symlink(path, links / "link.so");
  EXPECT_EQ(fla::load_plugin(links / "link.so").reason,
            "lies in " + folder.path() + ", which others than its owner and root may write to (mode 0775)");
  EXPECT_EQ(fla::load_plugin(links / "link.so").path, path);
}

/// The record in the file is changed, so that nothing of the plugin need run.
void expect_refused_unread(const std::string& from, const std::string& to, const std::string& reason) {
  const PluginFolder folder;
  const fla_test::ScopedEnvironment environment({{"PLUGIN_EVENTS", folder.events_file()}});
  const std::string path = folder.copy("acme", "patched");
  std::string bytes = fla::testing::read_bytes(path);
  for (std::size_t at = bytes.find("flaplug"); at != std::string::npos; at = bytes.find("flaplug", at + 1)) {
    const std::size_t found = bytes.find(from, at);
    ASSERT_LT(found, at + sizeof(fla::dispatch::PluginRecord));
    bytes.replace(found, to.size(), to);
  }
  folder.write("patched.so", bytes);
  expect_refused(path, reason);
  EXPECT_THAT(folder.events(), ElementsAre());
}

TEST(BadPluginRecord, OfAnotherAbiIsRefusedBeforeItsCodeRuns) {
  const std::string magic = std::string("flaplug") + '\0';
  expect_refused_unread(magic, magic + '\x09', "was built for plugin ABI 9, this library has 4");
}

TEST(BadPluginRecord, OfAnotherVersionIsRefusedBeforeItsCodeRuns) {
  expect_refused_unread("0.1.0", "0.7.3", "was built for fla 0.7.3, this is fla 0.1.0");
}

TEST(BadPluginRecord, OfAnotherToolchainIsRefusedBeforeItsCodeRuns) {
  expect_refused_unread("lib", "LIB",
                        "was built with toolchain 'LIB" + std::string(fla::dispatch::kToolchain.substr(3)) +
                            "', this library with '" + std::string(fla::dispatch::kToolchain) + "'");
}

TEST(GoodPlugin, GivesItsDescriptorBackOnceAndStaysOpen) {
  const PluginFolder folder;
  const fla_test::ScopedEnvironment environment({{"PLUGIN_EVENTS", folder.events_file()}});
  const Call call;
  (void)fla::chunk_kda(call.args);
  const fla::PluginStatus status = fla::load_plugin(folder.copy("defective", "good"));
  EXPECT_EQ(status.state, "loaded");
  EXPECT_EQ(status.name, "good");
  EXPECT_EQ(status.library_version, "0.1.0");
  EXPECT_THAT(status.ops, ElementsAre("kda"));
  EXPECT_THAT(status.backends, ElementsAre("kda.good"));
  EXPECT_THAT(folder.events(), ElementsAre("opened", "registered", "freed"));
}

TEST(GoodPlugin, SaysWhatItServesBeforeItIsLoaded) {
  const PluginFolder folder;
  const fla::PluginStatus status = fla::load_plugin(folder.copy("acme_sum"));
  EXPECT_EQ(status.name, "acme_sum");
  EXPECT_EQ(status.library_version, "0.1.0");
  EXPECT_TRUE(status.ops_known);
  EXPECT_THAT(status.ops, testing::UnorderedElementsAre("acme_sum", "kda"));
  EXPECT_THAT(status.backends, ElementsAre("acme_sum.thousand"));
}

}  // namespace
