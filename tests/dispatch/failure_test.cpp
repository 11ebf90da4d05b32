#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/policy.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/captured_log.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::BackendError;
using fla_test::add;
using fla_test::error_text;
using fla_test::MixArgs;
using fla_test::MixResult;
using fla_test::ReloadedEnvironment;
using fla_test::taker;

/// A backend that throws what the test gives, before one that works.
class Failure : public testing::Test {
 protected:
  template <class Error>
  fla::RegisteredBackend failing_with(Error error) {
    return add(
        {.name = "failing", .priority = 1, .run = [error](const MixArgs&) -> MixResult { throw error; }});
  }
  fla::RegisteredBackend next_ = add({.name = "next", .priority = 2});
};

TEST_F(Failure, IsRaisedUnlessSet) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  EXPECT_EQ(error_text<BackendError>([] { (void)taker(); }), "out of workspace");
}

TEST_F(Failure, FallsBackToTheNextBackendWhenNothingWasWritten) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const ReloadedEnvironment environment{{"FLA_ON_FAILURE", "fallback"}};
  EXPECT_EQ(taker(), "next");
}

TEST_F(Failure, FallsBackToTheOriginalWhenNobodyElseTakesTheCall) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const fla::ScopedPolicy policy({.deny = {{"next"}}, .on_failure = fla::OnFailure::fallback});
  EXPECT_EQ(taker(), "original");
}

TEST_F(Failure, IsWarnedAboutWhenTheCallGoesOn) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  const fla_test::CapturedLog log;
  (void)taker();
  ASSERT_FALSE(log.lines().empty());
  EXPECT_EQ(
      log.lines()[0],
      "warning: [FLA Backend] mix.mix_chunk: backend failing failed, the call goes on: out of workspace");
}

TEST_F(Failure, AfterAWriteIsRaisedAsItIs) {
  const auto failing = failing_with(BackendError("half way", BackendError::Wrote::maybe));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  try {
    (void)taker();
    FAIL() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_STREQ(error.what(), "half way");
    EXPECT_EQ(error.wrote(), BackendError::Wrote::maybe);
  }
}

TEST_F(Failure, OfAnotherKindBecomesABackendErrorThatNamesFunctionAndBackend) {
  const auto failing = failing_with(std::runtime_error("segment too long"));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  try {
    (void)taker();
    FAIL() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_STREQ(error.what(), "mix.mix_chunk: backend failing failed: segment too long");
    EXPECT_EQ(error.wrote(), BackendError::Wrote::maybe);
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
  }
}

TEST_F(Failure, OfNoExceptionTypeBecomesABackendErrorToo) {
  const auto failing = failing_with(5);
  EXPECT_EQ(error_text<BackendError>([] { (void)taker(); }),
            "mix.mix_chunk: backend failing failed: an exception of unknown type");
}

TEST_F(Failure, OfARequiredBackendNeverFallsBack) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const fla::ScopedPolicy policy({.require = {{"mix", "failing"}}, .on_failure = fla::OnFailure::fallback});
  EXPECT_EQ(error_text<BackendError>([] { (void)taker(); }), "out of workspace");
}

TEST_F(Failure, ErrorsHaveOneBase) {
  const auto failing = failing_with(std::runtime_error("x"));
  EXPECT_THROW((void)taker(), fla::Error);
}

}  // namespace
