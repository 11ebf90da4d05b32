#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tests/plugins/plugin_folder.h"
#include "tests/tools/program.h"

/// What happens when, each time in a new process.
namespace {

using fla_test::PluginFolder;
using testing::ElementsAre;
using testing::HasSubstr;

using Lines = std::vector<std::string>;

struct Told {
  Lines lines;
  std::string log;
};

Told steps(const PluginFolder& folder, Lines words, std::map<std::string, std::string> variables = {}) {
  variables.emplace("PLUGIN_EVENTS", folder.events_file());
  words.insert(words.begin(), FLA_PLUGIN_STEPS);
  const fla::testing::Outcome outcome = fla::testing::run_program(words, {.variables = variables});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  Told told{{}, outcome.err};
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) told.lines.push_back(line);
  return told;
}

TEST(PluginLoading, HappensOnTheFirstCallOfAnOpThatItServesAndNotBefore) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  EXPECT_THAT(steps(folder, {"load=" + acme, "plugins", "other", "plugins"}).lines,
              ElementsAre("load: found", "plugins: acme found", "other: 1", "plugins: acme found"));
  EXPECT_THAT(folder.events(), ElementsAre());
  EXPECT_THAT(steps(folder, {"load=" + acme, "kda=64", "plugins"}).lines,
              ElementsAre("load: found", "kda: acme", "plugins: acme loaded"));
  EXPECT_THAT(folder.events(), ElementsAre("opened", "registered", "closed"));
}

TEST(PluginLoading, TakesAndRefusesCallsLikeAnyBackend) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  EXPECT_THAT(steps(folder, {"load=" + acme, "explain=64", "explain=32", "kda=32"}).lines,
              ElementsAre("load: found", "explain: acme selected",
                          "explain: acme refused: requires K=64, got 32", "kda: ran"));
}

TEST(PluginLoading, HappensAtOnceWhenTheOpHasBeenCalled) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  EXPECT_THAT(steps(folder, {"kda=64", "load=" + acme, "kda=64"}).lines,
              ElementsAre("kda: ran", "load: loaded", "kda: acme"));
}

TEST(PluginLoading, FileThatSaysNothingIsLoadedOnTheFirstCallOfAnyOp) {
  const PluginFolder folder;
  const std::string plugin = folder.copy("defective", "sound");
  EXPECT_THAT(steps(folder, {"load=" + plugin, "plugins", "other", "plugins"}).lines,
              ElementsAre("load: found", "plugins: sound found", "other: 1", "plugins: sound loaded"));
}

class CallingPlugin : public testing::TestWithParam<std::pair<std::string, Lines>> {};

TEST_P(CallingPlugin, NeitherHangsNorMissesItsTurn) {
  const auto& [when, events] = GetParam();
  const PluginFolder folder;
  const std::string plugin = folder.copy("calling", when);
  EXPECT_THAT(steps(folder, {"load=" + plugin, "kda=64", "kda=64", "plugins"}).lines,
              ElementsAre("load: found", "kda: calling", "kda: calling", "plugins: calling loaded"));
  EXPECT_EQ(folder.events(), events);
}

INSTANTIATE_TEST_SUITE_P(When, CallingPlugin,
                         testing::Values(std::pair{"constructor", Lines{"called"}},
                                         std::pair{"constructor_thread", Lines{"called"}},
                                         std::pair{"constructor_child", Lines{"called", "child ended"}},
                                         std::pair{"available", Lines{"called"}},
                                         std::pair{"available_thread", Lines{"called"}},
                                         std::pair{"available_child", Lines{"called", "child ended"}}),
                         [](const auto& test) { return test.param.first; });

TEST(PluginLoading, LibraryThatIsClosedAgainMayCallFla) {
  for (const char* when : {"destructor", "destructor_thread"}) {
    const PluginFolder folder;
    const std::string plugin = folder.copy("calling", when);
    EXPECT_THAT(steps(folder, {"load=" + plugin, "kda=64", "plugins"}).lines,
                ElementsAre("load: found", "kda: ran",
                            "plugins: calling refused: its register function threw: to be closed again"));
    EXPECT_THAT(folder.events(), ElementsAre("called")) << when;
  }
}

TEST(PluginLoading, FileThatIsReplacedMeanwhileIsRefused) {
  const PluginFolder folder;
  const std::string plugin = folder.copy("calling", "replaced");
  EXPECT_THAT(steps(folder, {"load=" + plugin, "kda=64", "plugins"}).lines,
              ElementsAre("load: found", "kda: ran",
                          "plugins: calling refused: was replaced while it was being loaded"));
}

TEST(PluginPath, PipesAndLibrariesThatAreNoPluginsAreLeftAlone) {
  const PluginFolder folder;
  folder.copy("acme");
  folder.copy("no_symbol", "support");
  ASSERT_EQ(::mkfifo((folder / "pipe.so").c_str(), 0600), 0);
  const Told told =
      steps(folder, {"plugins", "kda=64", "explain=64", "plugins"}, {{"FLA_PLUGIN_PATH", folder.path()}});
  const std::string others = "pipe refused: is no file; support refused: has no function fla_plugin";
  EXPECT_THAT(told.lines, ElementsAre("plugins: acme found; " + others, "kda: acme",
                                      "explain: acme selected; pipe unavailable: plugin " +
                                          (folder / "pipe.so") + ": is no file",
                                      "plugins: acme loaded; " + others));
  EXPECT_THAT(folder.events(), ElementsAre("opened", "registered", "closed")) << "of acme alone";
  EXPECT_THAT(told.log, testing::Not(HasSubstr("support"))) << "it serves nothing: nobody has to hear of it";
}

TEST(PluginLoading, LooksAgainWhetherOthersMayWriteToTheFile) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  EXPECT_THAT(
      steps(folder, {"load=" + acme, "loosen=" + acme, "kda=64", "plugins"}).lines,
      ElementsAre("load: found", "loosen: done", "kda: ran",
                  "plugins: acme refused: others than its owner and root may write to it (mode 0777)"));
  EXPECT_THAT(folder.events(), ElementsAre());
}

TEST(PluginPath, FoldersGiveTheirLibrariesInAlphabeticalOrder) {
  const PluginFolder folder;
  for (const char* name : {"b", "a", "c"}) folder.copy("defective", name);
  folder.write("notes.txt", "no library");
  EXPECT_THAT(
      steps(folder, {"plugins", "kda=8", "plugins", "explain=8"}, {{"FLA_PLUGIN_PATH", folder.path()}}).lines,
      ElementsAre("plugins: a found; b found; c found", "kda: ran", "plugins: a loaded; b loaded; c loaded",
                  "explain: a refused: is for tests alone; b refused: is for tests alone; "
                  "c refused: is for tests alone"));
}

TEST(PluginPath, TakesFilesAndFoldersAndNothingTwice) {
  const PluginFolder folder, other;
  const std::string acme = folder.copy("acme");
  const std::string sum = other.copy("acme_sum");
  std::filesystem::create_symlink(acme, other / "link.so");
  EXPECT_THAT(
      steps(folder, {"plugins"}, {{"FLA_PLUGIN_PATH", acme + "::" + other.path() + ":" + acme + ":" + sum}})
          .lines,
      ElementsAre("plugins: acme found; acme_sum found"));
}

TEST(PluginPath, IsReadAgainWithTheEnvironment) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  EXPECT_THAT(
      steps(folder, {"kda=64", "reload=" + acme, "plugins", "kda=64", "plugins"}).lines,
      ElementsAre("kda: ran", "reload: done", "plugins: acme found", "kda: acme", "plugins: acme loaded"));
}

TEST(PluginPath, FolderBelowOneThatOthersMayWriteToIsRefused) {
  const PluginFolder folder;
  std::filesystem::create_directories(folder / "open/inner");
  const std::string plugin = folder / "open/inner/acme.so";
  std::filesystem::rename(folder.copy("acme"), plugin);
  std::filesystem::permissions(folder / "open", std::filesystem::perms{0777});
  EXPECT_THAT(steps(folder, {"kda=64", "plugins"}, {{"FLA_PLUGIN_PATH", folder / "open/inner"}}).lines,
              ElementsAre("kda: ran", "plugins: acme refused: is reached through " + (folder / "open") +
                                          ", which others than its owner and root may write to (mode 0777)"));
  EXPECT_THAT(folder.events(), ElementsAre());
}

TEST(PluginPath, WhatIsNotThereIsRefusedAndTheProcessGoesOn) {
  const PluginFolder folder;
  const std::string missing = folder / "libmissing.so";
  const Told told = steps(folder, {"plugins", "kda=64", "explain=64"}, {{"FLA_PLUGIN_PATH", missing}});
  EXPECT_THAT(told.lines,
              ElementsAre("plugins: missing refused: cannot be read: No such file or directory", "kda: ran",
                          "explain: missing unavailable: plugin " + missing +
                              ": cannot be read: No such file or directory"));
  EXPECT_THAT(told.log,
              HasSubstr("[FLA Plugin] " + missing + " refused: cannot be read: No such file or directory"));
}

TEST(PluginPolicy, NamesBackendsThatAreNotLoadedYet) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  for (const auto& [variable, value] :
       {std::pair{"FLA_BACKEND_REQUIRE", "kda=acme"}, std::pair{"FLA_BACKEND_ORDER", "kda=acme"}}) {
    EXPECT_THAT(steps(folder, {"kda=64", "plugins"}, {{"FLA_PLUGIN_PATH", acme}, {variable, value}}).lines,
                ElementsAre("kda: acme", "plugins: acme loaded"))
        << variable;
  }
  EXPECT_THAT(steps(folder, {"policy=acme", "kda=64"}, {{"FLA_PLUGIN_PATH", acme}}).lines,
              ElementsAre("policy: done", "kda: acme"));
}

TEST(UnknownVariable, IsToldOnceWithTheNameThatMayBeMeant) {
  const PluginFolder folder;
  const Told told = steps(folder, {"kda=8", "reload=", "kda=8"},
                          {{"FLA_CPU_SIMDD", "0"}, {"FLA_BACKEND_ODER", "x"}, {"FLA_USE_TMA", "1"}});
  const auto count = [&told](const std::string& line) {
    std::size_t found = 0;
    for (std::size_t at = told.log.find(line); at != std::string::npos; at = told.log.find(line, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("[FLA Config] FLA_CPU_SIMDD is set, which nothing that is loaded reads; did you mean "
                  "'FLA_CPU_SIMD'?"),
            1u);
  EXPECT_EQ(count("[FLA Config] FLA_BACKEND_ODER is set, which nothing that is loaded reads; did you mean "
                  "'FLA_BACKEND_ORDER'?"),
            1u);
  EXPECT_EQ(count("FLA_USE_TMA"), 0u) << "somebody else's";
  EXPECT_EQ(told.lines[0], "kda: ran");
}

TEST(PluginPolicy, TurnsBackendsOffAndDeniesThem) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  EXPECT_THAT(steps(folder, {"kda=64", "explain=64"}, {{"FLA_PLUGIN_PATH", acme}, {"FLA_ACME", "0"}}).lines,
              ElementsAre("kda: ran", "explain: acme disabled: FLA_ACME=0"));
  EXPECT_THAT(
      steps(folder, {"kda=64", "explain=64"}, {{"FLA_PLUGIN_PATH", acme}, {"FLA_BACKEND_DENY", "kda.acme"}})
          .lines,
      ElementsAre("kda: ran", "explain: acme denied: named in the deny list"));
}

TEST(PluginOps, NewOpIsCalledByName) {
  const PluginFolder folder;
  const std::string sum = folder.copy("acme_sum");
  EXPECT_THAT(steps(folder, {"sum=1", "load=" + sum, "plugins", "sum=1", "sum=5000", "plugins"}).lines,
              ElementsAre(HasSubstr("sum: error: "), "load: found", "plugins: acme_sum found", "sum: 3",
                          "sum: 1005002", "plugins: acme_sum loaded"));
}

TEST(PluginOps, FunctionIsAddedToAnOpThatIsThere) {
  const PluginFolder folder;
  const std::string sum = folder.copy("acme_sum");
  EXPECT_THAT(steps(folder, {"load=" + sum, "count", "kda=64"}).lines,
              ElementsAre("load: found", "count: 40", "kda: ran"));
  EXPECT_THAT(steps(folder, {"kda=64", "load=" + sum, "count"}).lines,
              ElementsAre("kda: ran", "load: loaded", "count: 40"));
}

TEST(PluginOps, SecondPluginThatBringsTheSameFunctionIsRefused) {
  const PluginFolder folder;
  const std::string first = folder.copy("acme_sum", "first"), second = folder.copy("acme_sum", "second");
  EXPECT_THAT(steps(folder, {"load=" + first, "load=" + second, "sum=1", "plugins"}).lines,
              ElementsAre("load: found", "load: found", "sum: 3",
                          "plugins: acme_sum loaded; acme_sum refused: it brings function 'sum', which op "
                          "acme_sum has already"));
}

}  // namespace
