#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/explained.h"

namespace {

using fla::Explanation;
using fla_test::add;
using fla_test::error_text;
using fla_test::MixArgs;
using Json = nlohmann::json;
using testing::ElementsAre;

/// One backend for every state that explain knows, in the order of their priorities.
class Explain : public testing::Test {
 protected:
  std::vector<std::string> states(const Explanation& explanation) {
    std::vector<std::string> found;
    for (const Explanation::Row& row : explanation.rows) found.push_back(row.name + " " + row.state);
    return found;
  }
  Explanation explain() const { return fla::explain("mix", "mix_chunk", MixArgs{.K = 64}); }

  int runs_ = 0;
  fla::RegisteredBackend absent_ =
      add({.name = "absent", .priority = 1, .available = [] { return fla::Availability::no("no device"); }});
  fla::RegisteredBackend off_ =
      add({.name = "off", .priority = 2, .env_var = "FLA_TEST_OFF", .default_enable = false});
  fla::RegisteredBackend denied_ = add({.name = "denied", .priority = 3});
  fla::RegisteredBackend picky_ = add({.name = "picky", .priority = 4, .verify = [](const MixArgs& args) {
                                         return fla::refuse("requires K=128, got {}", args.K);
                                       }});
  fla::RegisteredBackend buggy_ =
      add({.name = "buggy", .priority = 5, .verify = [](const MixArgs&) -> fla::Verdict {
             throw std::runtime_error("null device");
           }});
  fla::RegisteredBackend accepting_ = add({.name = "accepting", .priority = 6, .run = [this](const MixArgs&) {
                                             ++runs_;
                                             return fla_test::MixResult{"accepting"};
                                           }});
  fla::RegisteredBackend spare_ = add({.name = "spare", .priority = 7});
  fla::ScopedPolicy policy_{{.deny = {{"denied"}}}};
};

TEST_F(Explain, HasOneRowABackendInTheOrderOfAsking) {
  const Explanation explanation = explain();
  EXPECT_EQ(explanation.op, "mix");
  EXPECT_EQ(explanation.function, "mix_chunk");
  EXPECT_TRUE(explanation.dispatch_enabled);
  EXPECT_EQ(explanation.selected, "accepting");
  EXPECT_EQ(explanation.error, "");
  EXPECT_THAT(states(explanation),
              ElementsAre("absent unavailable", "off disabled", "denied denied", "picky refused",
                          "buggy failed", "accepting selected", "spare accepted"));
}

TEST_F(Explain, GivesTheReasons) {
  EXPECT_EQ(fla_test::row_of("absent", explain()).reason, "no device");
  EXPECT_EQ(fla_test::row_of("off", explain()).reason, "off unless FLA_TEST_OFF=1");
  EXPECT_EQ(fla_test::row_of("denied", explain()).reason, "named in the deny list");
  EXPECT_EQ(fla_test::row_of("picky", explain()).reason, "requires K=128, got 64");
  EXPECT_EQ(fla_test::row_of("buggy", explain()).reason, "verifier failed: null device");
  EXPECT_EQ(fla_test::row_of("accepting", explain()).reason, "");
}

TEST_F(Explain, AgreesWithTheCall) { EXPECT_EQ(fla_test::selected_backend({.K = 64}), explain().selected); }

TEST_F(Explain, SelectsTheOriginalWhenNoBackendAccepts) {
  const fla::ScopedPolicy policy({.allow = {{"picky"}}});
  EXPECT_EQ(explain().selected, "original");
}

TEST_F(Explain, SaysWhatTheOriginalKernelIsThere) {
  EXPECT_EQ(explain().original.state, "accepted") << "accepting is before it";
  {
    const fla::ScopedPolicy policy({.allow = {{"picky"}}});
    EXPECT_EQ(explain().original.state, "selected");
  }
  {
    const fla::ScopedPolicy policy({.disable_dispatch = true});
    EXPECT_EQ(explain().original.state, "selected");
  }
  const fla::ScopedPolicy policy({.require = {{"mix", "accepting"}}});
  EXPECT_EQ(explain().original.state, "denied");
  EXPECT_EQ(explain().original.reason, "accepting is required for mix");
}

TEST_F(Explain, SaysNotImplementedForTheOtherFunction) {
  const Explanation explanation = fla::explain("mix", "mix_step", MixArgs{});
  EXPECT_EQ(explanation.selected, "original");
  EXPECT_EQ(fla_test::row_of("accepting", explanation).state, "not_implemented");
  EXPECT_EQ(fla_test::row_of("accepting", explanation).reason, "has no mix_step");
}

TEST_F(Explain, RunsNoKernelAndCountsNothing) {
  (void)fla_test::selected_backend({.K = 64});
  const auto before = fla_test::counted("picky");
  const auto taken = fla_test::counted("accepting").taken;
  const int runs = runs_;
  for (int i = 0; i < 5; ++i) (void)explain();
  EXPECT_EQ(runs_, runs);
  EXPECT_EQ(fla_test::refusals(fla_test::counted("picky")), fla_test::refusals(before));
  EXPECT_EQ(fla_test::counted("accepting").taken, taken);
}

TEST_F(Explain, JsonHasTheFieldsOfTheContract) {
  const Json document = Json::parse(explain().json());
  EXPECT_EQ(document.at("op"), "mix");
  EXPECT_EQ(document.at("function"), "mix_chunk");
  EXPECT_EQ(document.at("dispatch"), "enabled");
  EXPECT_EQ(document.at("selected"), "accepting");
  ASSERT_EQ(document.at("backends").size(), 8u);
  const Json& picky = document.at("backends").at(3);
  EXPECT_EQ(picky.at("name"), "picky");
  EXPECT_EQ(picky.at("priority"), 4);
  EXPECT_EQ(picky.at("state"), "refused");
  EXPECT_EQ(picky.at("reason"), "requires K=128, got 64");
  EXPECT_THAT(std::string(picky.at("place")), testing::HasSubstr("explain_test.cpp:"));
  EXPECT_EQ(document.at("backends").at(5).at("reason"), "");
  const Json& original = document.at("backends").at(7);
  EXPECT_EQ(original.at("name"), "original");
  EXPECT_GT(original.at("priority"), document.at("backends").at(6).at("priority"));
  EXPECT_EQ(original.at("state"), "accepted");
  EXPECT_EQ(original.at("reason"), "");
}

TEST_F(Explain, JsonReplacesWhatIsNoUtf8) {
  fla::Explanation explanation;
  explanation.function = "\xff";
  explanation.rows = {{.reason = "caf\xe9"}};
  const Json document = Json::parse(explanation.json());
  EXPECT_EQ(document.at("function"), "\xef\xbf\xbd");
  EXPECT_EQ(document.at("backends").at(0).at("reason"), "caf\xef\xbf\xbd");
}

TEST_F(Explain, JsonIsOneLineAndSaysWhenDispatchIsDisabled) {
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  const std::string text = explain().json();
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(Json::parse(text).at("dispatch"), "disabled");
  EXPECT_EQ(Json::parse(text).at("selected"), "original");
}

TEST_F(Explain, JsonOfACallThatWouldThrowHasNoSelectionAndTheError) {
  const fla::ScopedPolicy policy({.require = {{"mix", "picky"}}});
  const Json document = Json::parse(explain().json());
  EXPECT_TRUE(document.at("selected").is_null());
  EXPECT_EQ(document.at("error"), "backend picky is required and refused: requires K=128, got 64");
}

TEST_F(Explain, TextNamesEveryBackendWithStateAndReason) {
  const std::string text = explain().text();
  EXPECT_EQ(text.substr(0, text.find('\n')), "mix.mix_chunk -> accepting");
  for (const char* words : {"unavailable", "no device", "off unless FLA_TEST_OFF=1", "requires K=128, got 64",
                            "verifier failed: null device", "selected", "accepted", "original"}) {
    EXPECT_THAT(text, testing::HasSubstr(words));
  }
}

/// Two backends that have a word on how they would run a call: one takes K = 64, the other any.
class ExplainRoutes : public testing::Test {
 protected:
  static std::string of_call(std::string_view function, const MixArgs& args) {
    return std::string(function) + " in pieces of " + std::to_string(args.K / 2);
  }
  fla::RegisteredBackend narrow_ =
      add({.name = "narrow",
           .priority = 1,
           .verify =
               [](const MixArgs& args) {
                 return args.K == 64 ? fla::accept() : fla::refuse("requires K=64, got {}", args.K);
               },
           .route = of_call});
  fla::RegisteredBackend wide_ = add({.name = "wide", .priority = 2, .route = of_call});
  fla::RegisteredBackend silent_ = add({.name = "silent", .priority = 3});
};

TEST_F(ExplainRoutes, OfThoseThatTakeTheCallAreShown) {
  EXPECT_EQ(fla_test::row_of("narrow", {.K = 64}).route, "mix_chunk in pieces of 32");
  EXPECT_EQ(fla_test::row_of("wide", {.K = 64}).route, "mix_chunk in pieces of 32");
  EXPECT_EQ(fla_test::row_of("narrow", {.K = 128}).route, "");
  EXPECT_EQ(fla_test::row_of("wide", {.K = 128}).route, "mix_chunk in pieces of 64");
  EXPECT_EQ(fla_test::row_of("silent").route, "");
}

TEST_F(ExplainRoutes, AreShownInTheTextAndInTheJson) {
  const Explanation explanation = fla::explain("mix", "mix_chunk", MixArgs{.K = 128});
  EXPECT_EQ(explanation.text(),
            "mix.mix_chunk -> wide\n"
            "  narrow       1  refused   requires K=64, got 128\n"
            "  wide         2  selected  route: mix_chunk in pieces of 64\n"
            "  silent       3  accepted\n"
            "  original     -  accepted\n");
  const Json backends = Json::parse(explanation.json()).at("backends");
  EXPECT_EQ(backends.at(1).at("route"), "mix_chunk in pieces of 64");
  EXPECT_FALSE(backends.at(0).contains("route"));
  EXPECT_FALSE(backends.at(2).contains("route"));
}

TEST_F(ExplainRoutes, OneThatThrowsSpoilsNothing) {
  const fla::RegisteredBackend buggy =
      add({.name = "buggy", .priority = 0, .route = [](std::string_view, const MixArgs&) -> std::string {
             throw std::runtime_error("no table");
           }});
  EXPECT_EQ(fla::explain("mix", "mix_chunk", MixArgs{}).selected, "buggy");
  EXPECT_EQ(fla_test::row_of("buggy").route, "failed: no table");
}

TEST_F(Explain, UnknownOpsAndFunctionsAreRefusedByName) {
  EXPECT_THAT(error_text<fla::InvalidArgument>([] { fla::explain("mux", "mix_chunk", MixArgs{}); }),
              testing::EndsWith("got 'mux'"));
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { fla::explain("mix", "mix_all", MixArgs{}); }),
            "function: expected one of mix_chunk, mix_step, got 'mix_all'");
}

TEST_F(Explain, ArgumentsOfAnotherFunctionAreRefused) {
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { fla::explain("kda", "chunk_kda", MixArgs{}); }),
            "args: expected fla::KdaArgs, the arguments of kda.chunk_kda, got fla_test::MixArgs");
}

}  // namespace
