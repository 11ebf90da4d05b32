#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/backend/verdict.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/explained.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::Verdict;
using fla_test::add;
using fla_test::error_text;
using fla_test::Fake;
using fla_test::mix_chunk;
using fla_test::MixArgs;
using fla_test::row_of;
using fla_test::selected_backend;
using fla_test::standing_of;
using testing::EndsWith;

constexpr unsigned kRefusalLine = __LINE__ + 2;
Verdict only_128(const MixArgs& args) {
  return args.K == 128 ? fla::accept() : fla::refuse("requires K=128, got {}", args.K);
}

TEST(Choice, OriginalKernelRunsWithoutBackends) { EXPECT_EQ(selected_backend(), "original"); }

TEST(Choice, FirstBackendThatAcceptsTakesTheCall) {
  const auto alpha = add({.name = "alpha", .verify = only_128});
  EXPECT_EQ(selected_backend({.K = 128}), "alpha");
}

TEST(Choice, OriginalKernelRunsWhenNoBackendAccepts) {
  const auto alpha = add({.name = "alpha", .verify = only_128});
  EXPECT_EQ(selected_backend({.K = 64}), "original");
}

TEST(Choice, RefusedCallGoesToTheNextBackend) {
  const auto alpha = add({.name = "alpha", .priority = 1, .verify = only_128});
  const auto beta = add({.name = "beta", .priority = 2});
  EXPECT_EQ(selected_backend({.K = 128}), "alpha");
  EXPECT_EQ(selected_backend({.K = 64}), "beta");
}

TEST(Choice, RefusalCarriesItsReasonAndItsPlace) {
  const auto alpha = add({.name = "alpha", .verify = only_128});
  const auto row = row_of("alpha", MixArgs{.K = 64});
  EXPECT_EQ(row.state, "refused");
  EXPECT_EQ(row.reason, "requires K=128, got 64");
  EXPECT_THAT(row.place, EndsWith("choice_test.cpp:" + std::to_string(kRefusalLine)));
}

TEST(Choice, OriginalIsCallableByItself) {
  const auto alpha = add({.name = "alpha"});
  EXPECT_EQ(selected_backend(), "alpha");
  EXPECT_EQ(fla_test::original::mix_chunk({}).by, "original");
}

TEST(Choice, LowerPriorityIsAskedFirst) {
  const auto late = add({.name = "aaa_late", .priority = 7});
  const auto early = add({.name = "zzz_early", .priority = -3});
  EXPECT_EQ(selected_backend(), "zzz_early");
}

TEST(Choice, TiesGoByName) {
  const auto second = add({.name = "beta", .priority = 5});
  const auto first = add({.name = "alpha", .priority = 5});
  const auto third = add({.name = "gamma", .priority = 5});
  EXPECT_EQ(selected_backend(), "alpha");
  const auto explanation = fla::explain("mix", "mix_chunk", MixArgs{});
  ASSERT_EQ(explanation.rows.size(), 3u);
  EXPECT_EQ(explanation.rows[0].name, "alpha");
  EXPECT_EQ(explanation.rows[1].name, "beta");
  EXPECT_EQ(explanation.rows[2].name, "gamma");
}

TEST(Choice, BackendLeavesWithItsRegistration) {
  {
    const auto alpha = add({.name = "alpha"});
    EXPECT_EQ(selected_backend(), "alpha");
  }
  EXPECT_EQ(selected_backend(), "original");
}

TEST(Choice, BackendsOfOneNameAreRefused) {
  const auto alpha = add({.name = "alpha"});
  EXPECT_EQ(error_text<fla::ConfigError>([] { (void)add({.name = "alpha"}); }),
            "register_backend: op mix has a backend 'alpha' already");
}

TEST(Choice, BackendsOfAnUnknownOpAreRefused) {
  EXPECT_EQ(error_text<fla::ConfigError>([] {
              (void)fla::register_backend("mixx",
                                          std::make_unique<fla_test::FakeBackend>(Fake{.name = "alpha"}));
            }),
            "register_backend: there is no op 'mixx'");
}

TEST(Choice, ThrowingVerifierCountsAsARefusalAndIsToldApart) {
  const auto alpha = add({.name = "alpha", .priority = 1, .verify = [](const MixArgs&) -> Verdict {
                            throw std::runtime_error("oops");
                          }});
  const auto beta = add({.name = "beta", .priority = 2, .verify = only_128});
  EXPECT_EQ(selected_backend({.K = 128}), "beta");
  EXPECT_EQ(selected_backend({.K = 64}), "original");
  EXPECT_EQ(standing_of("alpha"), "failed: verifier failed: oops");
  EXPECT_EQ(standing_of("beta", {.K = 64}), "refused: requires K=128, got 64");
}

TEST(Choice, VerifierThatThrowsNoExceptionTypeIsCaughtToo) {
  const auto alpha = add({.name = "alpha", .verify = [](const MixArgs&) -> Verdict { throw 5; }});
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_EQ(standing_of("alpha"), "failed: verifier failed: an exception of unknown type");
}

/// Implements both functions and has no verifiers.
class Eager final : public fla_test::MixBackend {
 public:
  fla::BackendInfo info() const override {
    return {.name = "eager", .package = "", .env_var = "", .doc = ""};
  }
  fla_test::MixResult mix_chunk(const MixArgs&) override { return {"eager"}; }
  fla_test::MixResult mix_step(const MixArgs&) override { return {"eager step"}; }
};

TEST(Choice, BackendWithoutAVerifierAcceptsEveryCall) {
  const auto eager = fla::register_backend("mix", std::make_unique<Eager>());
  EXPECT_EQ(mix_chunk({.K = 1}).by, "eager");
  EXPECT_EQ(fla_test::mix_step({.K = 99}).by, "eager step");
  EXPECT_EQ(row_of("eager").state, "selected");
}

/// Has a verifier for a function that it does not implement.
class Talker final : public fla_test::MixBackend {
 public:
  fla::BackendInfo info() const override {
    return {.name = "talker", .package = "", .env_var = "", .doc = ""};
  }
  Verdict mix_chunk_verifier(const MixArgs&) const override { return fla::accept(); }
};

TEST(Choice, BackendWithoutAnImplementationIsSkippedAndSaysSo) {
  const auto talker = fla::register_backend("mix", std::make_unique<Talker>());
  const auto alpha = add({.name = "alpha"});
  EXPECT_EQ(selected_backend(), "alpha");
  EXPECT_EQ(standing_of("talker"), "not_implemented: has no mix_chunk");
  EXPECT_EQ(fla_test::mix_step({}).by, "original step");
  EXPECT_EQ(row_of("alpha", fla::explain("mix", "mix_step", MixArgs{})).state, "not_implemented");
}

/// An implementation inherited from a class in between is an implementation.
class Heir : public fla_test::MixBackend {
 public:
  fla_test::MixResult mix_chunk(const MixArgs&) override { return {"heir"}; }
  Verdict mix_chunk_verifier(const MixArgs& args) const override { return only_128(args); }
};
class Grandchild final : public Heir {
 public:
  fla::BackendInfo info() const override { return {.name = "heir", .package = "", .env_var = "", .doc = ""}; }
};

TEST(Choice, InheritedImplementationsAndVerifiersCount) {
  const auto heir = fla::register_backend("mix", std::make_unique<Grandchild>());
  EXPECT_EQ(selected_backend({.K = 128}), "heir");
  EXPECT_EQ(selected_backend({.K = 64}), "original");
}

TEST(Choice, UnavailableBackendIsSkippedWithItsReason) {
  const auto alpha =
      add({.name = "alpha", .available = [] { return fla::Availability::no("no such device"); }});
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_EQ(standing_of("alpha"), "unavailable: no such device");
}

TEST(Choice, ThrowingIsAvailableMeansUnavailable) {
  const auto alpha = add({.name = "alpha", .available = []() -> fla::Availability {
                            throw std::runtime_error("driver too old");
                          }});
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_EQ(standing_of("alpha"), "unavailable: is_available failed: driver too old");
}

TEST(Choice, AvailabilityIsAskedOnce) {
  int asked = 0;
  const auto alpha = add({.name = "alpha", .available = [&asked] {
                            ++asked;
                            return fla::Availability::yes();
                          }});
  for (int i = 0; i < 3; ++i) (void)selected_backend();
  (void)row_of("alpha");
  EXPECT_EQ(asked, 1);
}

TEST(Verdict, FormatsItsValuesWhenAsked) {
  EXPECT_EQ(fla::refuse("{} and {}, not {}", 3, 2.5, "text").reason(), "3 and 2.5, not text");
  EXPECT_EQ(fla::refuse("got {} on {}", fla::DType::bf16, fla::Device{fla::DeviceType::cuda, 2}).reason(),
            "got bf16 on cuda:2");
  EXPECT_EQ(fla::refuse("no values").reason(), "no values");
  EXPECT_EQ(fla::refuse("a value too few: {}").reason(), "a value too few: ");
  EXPECT_EQ(fla::refuse("{}", std::int64_t{-5}).reason(), "-5");
  EXPECT_EQ(fla::accept().reason(), "");
}

TEST(Verdict, IsYesOrNo) {
  EXPECT_TRUE(fla::accept().ok());
  EXPECT_TRUE(static_cast<bool>(fla::accept()));
  EXPECT_FALSE(fla::refuse("no").ok());
  EXPECT_FALSE(fla::refuse("no").failed());
  EXPECT_TRUE(Verdict::failure("words").failed());
  EXPECT_FALSE(Verdict::failure("words").ok());
}

TEST(Verdict, RemembersWhereItWasRaised) {
  const Verdict verdict = fla::refuse("no");
  EXPECT_EQ(verdict.line(), static_cast<unsigned>(__LINE__) - 1);
  EXPECT_STREQ(verdict.file(), "tests/dispatch/choice/choice_test.cpp");
}

}  // namespace
