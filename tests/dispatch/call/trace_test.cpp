#include "fla/dispatch/call/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"

namespace {

using fla_test::error_text;
using fla_test::ScopedEnvironment;
using testing::StartsWith;

/// What the program traced_calls prints under these variables, and what the injected library prints with it.
std::string traced_calls(const std::string& variables) {
  const std::string command = variables + " FLA_LOG_LEVEL=off " + FLA_TRACED_CALLS;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text = "\n";
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  return text + "exit " + std::to_string(::pclose(pipe));
}

constexpr const char* kUntraced = R"(
call with K=1
steady runs
taken by steady
call with K=2
steady runs
error: no
call with K=3
taken by original
call with K=1
steady runs
taken by steady
plan
steady runs
exit 0)";

TEST(Trace, MarksNothingWithoutAProfiler) {
  EXPECT_EQ(traced_calls("env -u NVTX_INJECTION64_PATH"), kUntraced);
}

TEST(TraceSetting, ThatIsNoSwitchIsAnError) {
  const ScopedEnvironment environment{{"FLA_NVTX", "perhaps"}};
  EXPECT_EQ(error_text<fla::ConfigError>([] { (void)fla::dispatch::tracing(); }),
            "FLA_NVTX: expected one of 0 1 true false on off yes no, got 'perhaps'");
}

#ifdef FLA_TEST_NVTX_INJECTION

const std::string kInjected = std::string("NVTX_INJECTION64_PATH=") + FLA_TEST_NVTX_INJECTION;

TEST(Trace, MarksTheRunsOfBackendsAndOfTheOriginalInTheDomainFla) {
  EXPECT_EQ(traced_calls(kInjected + " FLA_ON_FAILURE=fallback"), R"(
call with K=1
domain fla
name fla mix.mix_chunk -> steady
push fla: fla mix.mix_chunk -> steady
steady runs
pop fla
taken by steady
call with K=2
push fla: fla mix.mix_chunk -> steady
steady runs
pop fla
name fla mix.mix_chunk -> original
push fla: fla mix.mix_chunk -> original
pop fla
taken by original
call with K=3
push fla: fla mix.mix_chunk -> original
pop fla
taken by original
call with K=1
push fla: fla mix.mix_chunk -> steady
steady runs
pop fla
taken by steady
plan
push fla: fla mix.mix_chunk -> steady
steady runs
pop fla
exit 0)");
}

TEST(Trace, MarksTheOriginalWhenDispatchIsDisabledToo) {
  EXPECT_THAT(traced_calls(kInjected + " FLA_DISABLE_BACKEND_DISPATCH=1"), StartsWith(R"(
call with K=1
domain fla
name fla mix.mix_chunk -> original
push fla: fla mix.mix_chunk -> original
pop fla
taken by original
call with K=2
push fla: fla mix.mix_chunk -> original
)"));
}

TEST(Trace, MarksNothingWhenSwitchedOff) { EXPECT_EQ(traced_calls(kInjected + " FLA_NVTX=0"), kUntraced); }

TEST(Trace, SwitchedOnWithoutAProfilerDoesNoHarm) {
  EXPECT_EQ(traced_calls("env -u NVTX_INJECTION64_PATH FLA_NVTX=1"), kUntraced);
}

TEST(Trace, OfAProfilerThatIsNotThereDoesNoHarm) {
  EXPECT_EQ(traced_calls("NVTX_INJECTION64_PATH=/nowhere/libprofiler.so"), kUntraced);
}

TEST(TraceSetting, FollowsTheProfilersVariableUnlessSet) {
  const auto with = [](const char* nvtx, const char* injection) {
    const ScopedEnvironment environment{{"FLA_NVTX", nvtx}, {"NVTX_INJECTION64_PATH", injection}};
    return fla::dispatch::tracing();
  };
  EXPECT_FALSE(with("", ""));
  EXPECT_TRUE(with("", "libprofiler.so"));
  EXPECT_FALSE(with("0", "libprofiler.so"));
  EXPECT_TRUE(with("1", ""));
}

#else

TEST(TraceSetting, SwitchedOnInABuildWithoutNvtxIsAnError) {
  const ScopedEnvironment environment{{"FLA_NVTX", "1"}};
  EXPECT_EQ(error_text<fla::ConfigError>([] { (void)fla::dispatch::tracing(); }),
            "FLA_NVTX: expected 0, since NVTX was left out of this build, got '1'");
}

TEST(TraceSetting, IgnoresTheProfilersVariableInABuildWithoutNvtx) {
  const ScopedEnvironment environment{{"FLA_NVTX", ""}, {"NVTX_INJECTION64_PATH", "libprofiler.so"}};
  EXPECT_FALSE(fla::dispatch::tracing());
}

#endif

}  // namespace
