#include "fla/dispatch/config/config_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/config/ruled.h"
#include "tests/tools/temporary_folder.h"

namespace {

using fla::ConfigError;
using fla::OnFailure;
using fla::Policy;
using fla::dispatch::Configuration;
using fla::dispatch::KnownNames;
using fla::dispatch::parse_configuration;
using fla::testing::TemporaryFolder;
using fla_test::error_text;

/// Two ops: `ruled`, which describes its arguments, and `mix`, which does not.
KnownNames known() {
  KnownNames names;
  names.ops["ruled"] = {.backends = {"alpha", "beta", "cpu_simd"},
                        .tables = {fla_test::RuledArgs::arguments(), fla_test::RuledStepArgs::arguments()}};
  names.ops["mix"] = {.backends = {"gamma"}, .tables = {{}}};
  return names;
}

/// What a file would be refused with; its path is "f".
std::string refusal(const std::string& text, const KnownNames& names = known()) {
  return error_text<ConfigError>([&] { check_names(parse_configuration(text, "f"), names); });
}
const std::string kNothing = "nothing was thrown";

TEST(ConfigFile, SetsWhatAPolicySets) {
  const Configuration read = parse_configuration(R"(
disable_dispatch = false
on_failure = "fallback"
batch_invariant = true
check_verifiers = true
allow = ["alpha", "ruled.beta"]
deny = ["mix.gamma"]
[enable]
alpha = true
beta = false
[order]
ruled = ["beta", "alpha"]
mix = []
[prefer]
ruled = ["alpha"]
[require]
ruled = "beta"
[breaker]
threshold = 3
window_ms = 5_000
cool_down_ms = 0
)",
                                                 "f");
  EXPECT_NO_THROW(check_names(read, known()));
  const Policy expected{.disable_dispatch = false,
                        .enable = {{"alpha", true}, {"beta", false}},
                        .order = {{"ruled", {"beta", "alpha"}}, {"mix", {}}},
                        .prefer = {{"ruled", {"alpha"}}},
                        .allow = {{"alpha", "ruled.beta"}},
                        .deny = {{"mix.gamma"}},
                        .require = {{"ruled", "beta"}},
                        .on_failure = OnFailure::fallback,
                        .batch_invariant = true,
                        .check_verifiers = true,
                        .breaker_threshold = 3,
                        .breaker_window_ms = 5000,
                        .breaker_cool_down_ms = 0};
  EXPECT_EQ(read.policy, expected);
  EXPECT_TRUE(read.rules.empty());
}

TEST(ConfigFile, HasRulesInTheirOrder) {
  const Configuration read = parse_configuration(R"(
[[rule]]
op = "ruled"
when = "T < 64 and device == 'cpu'"
order = ["cpu_simd"]

[[rule]]
op = "mix"
disable_dispatch = true
[[rule]]
op = "ruled"
prefer = ["beta", "alpha"]
allow = ["alpha"]
deny = ["beta"]
require = "alpha"
on_failure = "raise"
)",
                                                 "f");
  EXPECT_NO_THROW(check_names(read, known()));
  EXPECT_EQ(read.policy, Policy{});
  ASSERT_EQ(read.rules.size(), 3u);
  EXPECT_EQ(read.rules[0].op, "ruled");
  EXPECT_EQ(read.rules[0].when->text(), "T < 64 and device == 'cpu'");
  EXPECT_EQ(read.rules[0].policy, (Policy{.order = {{"ruled", {"cpu_simd"}}}}));
  EXPECT_EQ(read.rules[0].line, 2);
  EXPECT_EQ(read.rules[1].op, "mix");
  EXPECT_FALSE(read.rules[1].when);
  EXPECT_EQ(read.rules[1].policy, Policy{.disable_dispatch = true});
  EXPECT_EQ(read.rules[1].line, 7);
  EXPECT_EQ(read.rules[2].policy, (Policy{.prefer = {{"ruled", {"beta", "alpha"}}},
                                          .allow = {{"alpha"}},
                                          .deny = {{"beta"}},
                                          .require = {{"ruled", "alpha"}},
                                          .on_failure = OnFailure::raise}));
}

TEST(ConfigFile, MayBeEmpty) {
  EXPECT_EQ(parse_configuration("", "f").policy, Policy{});
  EXPECT_EQ(refusal("# nothing\n"), kNothing);
}

TEST(ConfigFile, MayUseEveryWayToWriteToml) {
  EXPECT_EQ(
      refusal("order.ruled = ['alpha']\nenable = {beta = false}\nrule = [{op = 'mix', deny = ['gamma']}]\n"),
      kNothing);
  EXPECT_EQ(refusal("[[rule]]\nop = 'ruled'\ndeny = ['alpha']\nwhen = '''\nT < 64\nand K == 128'''\n"),
            kNothing);
}

struct Bad {
  const char* name;
  std::string text;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.text; }

class BadFile : public testing::TestWithParam<Bad> {};
TEST_P(BadFile, IsRefusedWithItsLine) { EXPECT_EQ(refusal(GetParam().text), GetParam().message); }

const std::string kRule = "[[rule]]\nop = 'ruled'\n";

INSTANTIATE_TEST_SUITE_P(
    Keys, BadFile,
    testing::Values(
        Bad{"UnknownWithASuggestion", "\ndissable_dispatch = true",
            "f:2: unknown key 'dissable_dispatch'; did you mean 'disable_dispatch'?"},
        Bad{"UnknownWithoutOne", "colour = 3",
            "f:1: unknown key 'colour' (known: disable_dispatch, enable, order, prefer, allow, deny, "
            "require, "
            "on_failure, "
            "batch_invariant, check_verifiers, breaker, rule)"},
        Bad{"UnknownTable", "[oder]\nruled = []", "f:1: unknown key 'oder'; did you mean 'order'?"},
        Bad{"UnknownInARule", kRule + "orders = []",
            "f:3: unknown key 'orders' in a rule; did you mean 'order'?"},
        Bad{"OfTheFileInARule", kRule + "check_verifiers = true",
            "f:3: unknown key 'check_verifiers' in a rule (known: op, when, order, prefer, allow, deny, "
            "require, "
            "on_failure, "
            "disable_dispatch)"},
        Bad{"UnknownInTheBreaker", "[breaker]\ntreshold = 3",
            "f:2: unknown key 'breaker.treshold'; did you mean 'threshold'?"},
        Bad{"ManyLinesInAKey", "'a\\n' = 1\n\"b\\nc\" = 2",
            "f:1: unknown key 'a\\n' (known: disable_dispatch, enable, order, prefer, allow, deny, require, "
            "on_failure, "
            "batch_invariant, check_verifiers, breaker, rule)"},
        Bad{"LineBreakInAKey", "\"al\\nlow\" = 2", "f:1: unknown key 'al\\nlow'; did you mean 'allow'?"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Types, BadFile,
    testing::Values(
        Bad{"DisableDispatch", "disable_dispatch = 'yes'",
            "f:1: disable_dispatch: expected true or false, got 'yes'"},
        Bad{"BatchInvariant", "batch_invariant = 2", "f:1: batch_invariant: expected true or false, got 2"},
        Bad{"CheckVerifiers", "check_verifiers = 1", "f:1: check_verifiers: expected true or false, got 1"},
        Bad{"OnFailure", "on_failure = 'ignore'",
            "f:1: on_failure: expected 'raise' or 'fallback', got 'ignore'"},
        Bad{"OnFailureOfAnotherType", "on_failure = true",
            "f:1: on_failure: expected 'raise' or 'fallback', got true"},
        Bad{"Allow", "allow = 'alpha'", "f:1: allow: expected an array of backends, got 'alpha'"},
        Bad{"AllowElement", "allow = [\n'alpha',\n3.5]",
            "f:3: allow: expected a backend's name, got a float"},
        Bad{"Deny", "deny = {}", "f:1: deny: expected an array of backends, got a table"},
        Bad{"DenyElement", "deny = [1979-05-27]",
            "f:1: deny: expected a backend's name, got a date or a time"},
        Bad{"Enable", "enable = ['alpha']",
            "f:1: enable: expected a table with true or false for each backend, got an array"},
        Bad{"EnableElement", "[enable]\nalpha = 'off'",
            "f:2: enable.alpha: expected true or false, got 'off'"},
        Bad{"Order", "order = ['alpha']",
            "f:1: order: expected a table with an array of backends for each op, got an array"},
        Bad{"OrderElement", "[order]\nruled = 'alpha'",
            "f:2: order.ruled: expected an array of backends, got 'alpha'"},
        Bad{"OrderName", "[order]\nruled = [['alpha']]",
            "f:2: order.ruled: expected a backend's name, got an array"},
        Bad{"Require", "require = 'alpha'",
            "f:1: require: expected a table with a backend for each op, got 'alpha'"},
        Bad{"RequireElement", "[require]\nruled = ['alpha']",
            "f:2: require.ruled: expected a backend's name, got an array"},
        Bad{"Breaker", "breaker = 5",
            "f:1: breaker: expected a table with threshold, window_ms and cool_down_ms, got 5"},
        Bad{"BreakerNumber", "[breaker]\nthreshold = '5'",
            "f:2: breaker.threshold: expected a whole number from 0 to 1000000, got '5'"},
        Bad{"BreakerTooSmall", "[breaker]\nwindow_ms = 0",
            "f:2: breaker.window_ms: expected a whole number from 1 to 86400000, got 0"},
        Bad{"BreakerTooLarge", "[breaker]\ncool_down_ms = 86400001",
            "f:2: breaker.cool_down_ms: expected a whole number from 0 to 86400000, got 86400001"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Names, BadFile,
    testing::Values(Bad{"OpOfAnOrder", "[order]\nruld = ['alpha']",
                        "f:2: order: there is no op 'ruld'; did you mean 'ruled'?"},
                    Bad{"OpOfARequire", "[require]\nattention = 'alpha'",
                        "f:2: require: there is no op 'attention' (known: mix, ruled)"},
                    Bad{"OpOfARule", "[[rule]]\nop = 'rulled'\ndeny = []",
                        "f:2: op: there is no op 'rulled'; did you mean 'ruled'?"},
                    Bad{"OpOfAnAllow", "allow = ['miks.gamma']",
                        "f:1: allow: there is no op 'miks' (known: mix, ruled)"},
                    Bad{"BackendOfAnOrder", "[order]\nruled = ['alpha', 'cpu_smid']",
                        "f:2: order.ruled: op ruled has no backend 'cpu_smid'; did you mean 'cpu_simd'?"},
                    Bad{"BackendOfAnotherOp", "[order]\nmix = ['alpha']",
                        "f:2: order.mix: op mix has no backend 'alpha' (known: gamma)"},
                    Bad{"OpOfAPreference", "[prefer]\nruld = ['alpha']",
                        "f:2: prefer: there is no op 'ruld'; did you mean 'ruled'?"},
                    Bad{"BackendOfAPreference", "[prefer]\nruled = ['cpu_smid']",
                        "f:2: prefer.ruled: op ruled has no backend 'cpu_smid'; did you mean 'cpu_simd'?"},
                    Bad{"BackendOfARulesPreference", kRule + "prefer = ['bta']",
                        "f:3: prefer: op ruled has no backend 'bta'; did you mean 'beta'?"},
                    Bad{"BackendOfAllow", "allow = ['alhpa']",
                        "f:1: allow: no op has a backend 'alhpa'; did you mean 'alpha'?"},
                    Bad{"BackendOfDeny", "deny = [\n  'alpha',\n  'tilelang',\n]",
                        "f:3: deny: no op has a backend 'tilelang' (known: gamma, alpha, beta, cpu_simd)"},
                    Bad{"BackendOfAnOpInAllow", "allow = ['mix.alpha']",
                        "f:1: allow: op mix has no backend 'alpha' (known: gamma)"},
                    Bad{"OpWithoutABackend", "allow = ['ruled.']",
                        "f:1: allow: no op has a backend 'ruled.' (known: gamma, alpha, beta, cpu_simd)"},
                    Bad{"BackendWithoutAnOp", "allow = ['.alpha']",
                        "f:1: allow: no op has a backend '.alpha'; did you mean 'alpha'?"},
                    Bad{"NothingInARule", "[[rule]]\nop = ''\norder = ['']",
                        "f:2: op: there is no op '' (known: mix, ruled)"},
                    Bad{"NothingAtAll", "deny = ['']",
                        "f:1: deny: no op has a backend '' (known: gamma, alpha, beta, cpu_simd)"},
                    Bad{"BackendOfEnable", "[enable]\nbeat = true",
                        "f:2: enable: no op has a backend 'beat'; did you mean 'beta'?"},
                    Bad{"BackendOfRequire", "[require]\nruled = 'Alpha'",
                        "f:2: require.ruled: op ruled has no backend 'Alpha'; did you mean 'alpha'?"},
                    Bad{"BackendOfARulesOrder", kRule + "order = ['gamma']",
                        "f:3: order: op ruled has no backend 'gamma' (known: alpha, beta, cpu_simd)"},
                    Bad{"BackendOfARulesAllow", kRule + "allow = ['bta']",
                        "f:3: allow: op ruled has no backend 'bta'; did you mean 'beta'?"},
                    Bad{"BackendOfARulesDeny", kRule + "deny = ['ruled.alpha']",
                        "f:3: deny: op ruled has no backend 'ruled.alpha' (known: alpha, beta, cpu_simd)"},
                    Bad{"BackendOfARulesRequire", kRule + "require = 'simd'",
                        "f:3: require: op ruled has no backend 'simd' (known: alpha, beta, cpu_simd)"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Sense, BadFile,
    testing::Values(
        Bad{"BackendTwice", "[order]\nruled = ['alpha', 'beta', 'alpha']",
            "f:2: order.ruled: 'alpha' stands twice"},
        Bad{"BackendTwiceInARule", kRule + "order = ['beta', 'beta']", "f:3: order: 'beta' stands twice"},
        Bad{"PreferredTwice", "[prefer]\nruled = ['beta', 'beta']", "f:2: prefer.ruled: 'beta' stands twice"},
        Bad{"RuleWithoutAnOp", "\n[[rule]]\norder = []", "f:2: a rule needs an op, such as op = \"kda\""},
        Bad{"RuleWithAnOpOfAnotherType", "[[rule]]\nop = ['ruled']\norder = []",
            "f:2: op: expected an op's name, got an array"},
        Bad{"RuleThatSetsNothing", "\n" + kRule + "when = 'T < 4'",
            "f:2: this rule sets nothing: expected order, prefer, allow, deny, require, on_failure or "
            "disable_dispatch"},
        Bad{"OneRuleAsATable", "[rule]\nop = 'ruled'\norder = []",
            "f:1: rule: expected rules that begin with [[rule]], got a table"},
        Bad{"RulesThatAreNone", "rule = ['ruled']",
            "f:1: rule: expected rules that begin with [[rule]], got 'ruled'"},
        Bad{"RequireWhileDisabled", "disable_dispatch = true\n[require]\nruled = 'alpha'",
            "f:2: require: ruled cannot be given to 'alpha' while disable_dispatch is true"},
        Bad{"RuleRequiresWhileDisabled", "disable_dispatch = true\n" + kRule + "require = 'alpha'",
            "f:2: require: ruled cannot be given to 'alpha' while disable_dispatch is true"},
        Bad{"RuleDisablesWhatIsRequired", "[require]\nruled = 'alpha'\n" + kRule + "disable_dispatch = true",
            "f:3: require: ruled cannot be given to 'alpha' while disable_dispatch is true"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Conditions, BadFile,
    testing::Values(
        Bad{"AnotherType", kRule + "when = true\norder = []",
            "f:3: when: expected a condition such as \"T < 64\", got true"},
        Bad{"Syntax", kRule + "order = []\nwhen = 'T <'",
            "f:4: when: expected a name or a constant, got the end (column 4 of \"T <\")"},
        Bad{"UnknownName", kRule + "order = []\nwhen = \"dtpye == 'bf16'\"",
            "f:4: when: unknown name 'dtpye'; did you mean 'dtype'? (column 1 of \"dtpye == 'bf16'\")"},
        Bad{"TypeError", kRule + "when = \"fast and T == 'x'\"\norder = []",
            "f:3: when: T is a whole number, got 'x' (column 15 of \"fast and T == 'x'\")"},
        Bad{"Long", kRule + "when = '" + std::string(70, ' ') + "T <'\norder = []",
            "f:3: when: expected a name or a constant, got the end (column 74 of \"" + std::string(60, ' ') +
                "…\")"},
        Bad{"ManyLines", kRule + "order = []\nwhen = '''T < 4\nor'''",
            "f:4: when: expected a name or a constant, got the end (column 9 of \"T < 4\\nor\")"},
        Bad{"OfAnOpThatDescribesNothing", "[[rule]]\nop = 'mix'\nwhen = 'T < 4'\norder = []",
            "f:3: when: op mix does not describe its arguments; its rules can have no condition"}),
    [](const auto& test) { return test.param.name; });

TEST(ConfigFile, FirstLineThatIsWrongIsTold) {
  EXPECT_EQ(refusal("deny = ['omega']\n[order]\nnone = []\n"),
            "f:1: deny: no op has a backend 'omega' (known: gamma, alpha, beta, cpu_simd)");
  EXPECT_EQ(refusal("on_failure = 3\nallow = 3\n"), "f:1: on_failure: expected 'raise' or 'fallback', got 3");
}

TEST(ConfigFile, TextThatIsNotTomlIsRefusedWithItsLine) {
  for (const auto& [text, line] : {std::pair{"deny = [\n'alpha'\n", 2},
                                   {"\n\ndeny = \n", 3},
                                   {"deny = []\ndeny = []\n", 2},
                                   {"[[rule]\n", 1},
                                   {"a = 'b\n", 1},
                                   {"x = '\xff'\n", 1}}) {
    EXPECT_EQ(refusal(text).substr(0, 15), "f:" + std::to_string(line) + ": not TOML: ") << text;
  }
}

TEST(ConfigFile, TextThatTheParserDidNotExpectIsRefusedWithItsLine) {
  EXPECT_EQ(refusal("[(rule]]\n"), "f:1: not TOML: this line cannot be read");
  EXPECT_EQ(refusal("deny = [\n'alpha'\n]\n\n[(rule]\nop = 'ruled'\n"),
            "f:5: not TOML: this line cannot be read");
}

TEST(ConfigFile, CharactersBeyondAsciiAreTakenInQuotesAndComments) {
  EXPECT_EQ(refusal("# f\u00fcr\ndeny = ['\u00fc']"),
            "f:2: deny: no op has a backend '\u00fc' (known: gamma, alpha, beta, cpu_simd)");
  EXPECT_EQ(refusal("deny = [\"\"\"a\\\n  \u00fc\"\"\"]"),
            "f:1: deny: no op has a backend 'a\u00fc' (known: gamma, alpha, beta, cpu_simd)")
      << "behind a backslash that joins two lines";
  EXPECT_EQ(refusal("\u00fc = 1").substr(0, 15), "f:1: not TOML: ");
  EXPECT_EQ(refusal("\ndeny = \ufeef").substr(0, 15), "f:2: not TOML: ");
  EXPECT_EQ(refusal("deny\u00a0= []").substr(0, 15), "f:1: not TOML: ");
  EXPECT_EQ(refusal("\xef\xbb\xbf"
                    "deny = []"),
            kNothing)
      << "a byte order mark";
}

TEST(ConfigFile, ValuesInsideEachOtherAreCounted) {
  EXPECT_EQ(refusal("deny = " + std::string(100000, '[')).substr(0, 15), "f:1: not TOML: ");
}

TEST(ConfigFile, PartsOfAKeyAreCounted) {
  const auto parts = [](int count) {
    std::string key = "a";
    for (int i = 1; i < count; ++i) key += i % 2 == 0 ? ".a" : " . 'b.c'";
    return key;
  };
  const std::string message = ": expected keys of at most 16 parts, got one with more";
  EXPECT_EQ(refusal(parts(16) + " = 1").substr(0, 20), "f:1: unknown key 'a'");
  EXPECT_EQ(refusal(parts(17) + " = 1"), "f:1" + message);
  EXPECT_EQ(refusal("\n[" + parts(100000) + "]"), "f:2" + message);
  EXPECT_EQ(refusal("# a comment that doesn't end\n[[" + parts(17) + "]]"), "f:2" + message);
  EXPECT_EQ(refusal("deny = [{" + parts(17) + " = 3}]"), "f:1" + message);
  EXPECT_EQ(refusal("x = " + std::string(3, '"') + "a\n\\" + std::string(4, '"') + "\n" + parts(17) + " = 1"),
            "f:3" + message);
  EXPECT_EQ(refusal("x = 'it''s'\n" + parts(17) + " = 1"), "f:2" + message);
}

TEST(ConfigFile, DotsElsewhereAreNotParts) {
  const std::string dots(100, '.');
  EXPECT_EQ(refusal("# " + dots + "\ndeny = ['" + dots + "']").substr(0, 28), "f:2: deny: no op has a backe");
  EXPECT_EQ(refusal("deny = [" + std::string(3, '"') + "\n" + dots + std::string(5, '"') + "]").substr(0, 10),
            "f:1: deny:");
  std::string list = "deny = [";
  for (int i = 0; i < 100; ++i) list += "'ruled.alpha', ";
  EXPECT_EQ(refusal(list + "]"), kNothing);
}

TEST(ConfigFile, ConditionMaySpeakOfOneFunctionAlone) {
  EXPECT_EQ(refusal(kRule + "when = 'only_in_steps'\norder = []"), kNothing);
  EXPECT_EQ(
      refusal(kRule + "when = 'only_in_steps and T < 4'\norder = []"),
      "f:3: when: unknown name 'only_in_steps' (known: dtype, device, B, T, H, HV, K, V, N, varlen, scale, "
      "lower_bound, depth, fast, v_first, state, cu_seqlens, out) (column 1 of \"only_in_steps and T < 4\")");
}

TEST(ConfigFile, NamesThatPluginsMayBringAreNotRefusedYet) {
  KnownNames names = known();
  names.ops["ruled"].complete = false;
  EXPECT_EQ(refusal(kRule + "order = ['of_a_plugin']\nwhen = 'of_a_plugin'", names), kNothing);
  EXPECT_EQ(refusal("allow = ['of_a_plugin']", names), kNothing);
  EXPECT_EQ(refusal("[order]\nmix = ['of_a_plugin']", names),
            "f:2: order.mix: op mix has no backend 'of_a_plugin' (known: gamma)");
  EXPECT_EQ(refusal("[order]\nof_a_plugin = []", names),
            "f:2: order: there is no op 'of_a_plugin' (known: mix, ruled)");
  names.complete = false;
  EXPECT_EQ(refusal("[order]\nof_a_plugin = ['x']", names), kNothing);
}

TEST(ConfigFile, IsReadFromTheDisk) {
  const TemporaryFolder folder;
  const std::string path = folder.write("c.toml", "deny = ['alpha']\n");
  const Configuration first = fla::dispatch::read_configuration(path);
  EXPECT_EQ(first.policy, (Policy{.deny = {{"alpha"}}}));
  EXPECT_EQ(first.path, path);
  EXPECT_EQ(first.text, "deny = ['alpha']\n");
  EXPECT_GT(fla::dispatch::read_configuration(path).reading, first.reading);
}

TEST(ConfigFile, ThatCannotBeReadIsRefused) {
  const TemporaryFolder folder;
  const auto reading = [](const std::string& path) {
    return error_text<ConfigError>([&] { (void)fla::dispatch::read_configuration(path); });
  };
  const std::string missing = folder / "none.toml";
  EXPECT_EQ(reading(missing), missing + ": cannot be read: No such file or directory");
  EXPECT_EQ(reading(folder / ""), folder / "" + ": expected a file, got a folder");
  EXPECT_EQ(reading("/dev/zero"), "/dev/zero: expected a file, got a device or a pipe");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(reading(pipe), pipe + ": expected a file, got a device or a pipe");
  const std::string large = folder.write("large.toml", std::string((1 << 20) + 1, '#'));
  EXPECT_EQ(reading(large), large + ": expected at most 1 MiB, got more");
}

}  // namespace
