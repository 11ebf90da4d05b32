#include <gtest/gtest.h>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/dispatch/mix.h"
#include "tools/conformance/allocations.h"

namespace {

using fla_test::mix_chunk;
using fla_test::MixArgs;

/// Checks what a real verifier checks, and refuses unless K is `channels`.
template <int channels>
class Picky : public fla_test::MixBackend {
 public:
  fla::Verdict mix_chunk_verifier(const MixArgs& args) const override {
    if (args.dtype != fla::DType::f32) return fla::refuse("requires f32, got {}", args.dtype);
    if (args.K != channels) return fla::refuse("requires K={}, got {}", channels, args.K);
    return fla::accept();
  }
  fla_test::MixResult mix_chunk(const MixArgs&) override { return {"picky"}; }
};
struct First final : Picky<64> {
  fla::BackendInfo info() const override { return {.name = "first", .priority = 1}; }
};
struct Second final : Picky<128> {
  fla::BackendInfo info() const override { return {.name = "second", .priority = 2}; }
};
struct Third final : Picky<256> {
  fla::BackendInfo info() const override { return {.name = "third", .priority = 3}; }
};

template <class Body>
std::uint64_t allocations_of(Body&& body) {
  for (int i = 0; i < 3; ++i) body();  // the first call loads, names counters and makes this thread's cells
  const std::uint64_t before = fla_test::allocations();
  for (int i = 0; i < 100; ++i) body();
  return fla_test::allocations() - before;
}

class Allocation : public testing::Test {
 protected:
  fla::RegisteredBackend first_ = fla::register_backend("mix", std::make_unique<First>());
  fla::RegisteredBackend second_ = fla::register_backend("mix", std::make_unique<Second>());
  fla::RegisteredBackend third_ = fla::register_backend("mix", std::make_unique<Third>());
};

TEST_F(Allocation, InsideTheLibraryIsCounted) {
  EXPECT_GT(allocations_of([] { (void)fla::counters(); }), 0u);
}

TEST_F(Allocation, NoneInTheOriginalCalledDirectly) {
  EXPECT_EQ(allocations_of([] { (void)fla_test::original::mix_chunk({}); }), 0u);
}

TEST_F(Allocation, NoneWhenTheSecondOfThreeAccepts) {
  ASSERT_EQ(mix_chunk({}).by, "picky");
  EXPECT_EQ(allocations_of([] { (void)mix_chunk({}); }), 0u);
}

TEST_F(Allocation, NoneWhenAllRefuse) {
  ASSERT_EQ(mix_chunk({.K = 1}).by, "original");
  EXPECT_EQ(allocations_of([] { (void)mix_chunk({.K = 1}); }), 0u);
}

TEST_F(Allocation, NoneWhenDispatchIsDisabled) {
  fla::set_policy({.disable_dispatch = true});
  EXPECT_EQ(allocations_of([] { (void)mix_chunk({}); }), 0u);
  fla::set_policy({});
}

TEST_F(Allocation, NoneInAPlan) {
  const fla::Plan<MixArgs> plan = fla::plan("mix", "mix_chunk", MixArgs{});
  ASSERT_EQ(plan.backend(), "second");
  EXPECT_EQ(allocations_of([&plan] { (void)plan({}); }), 0u);
}

TEST_F(Allocation, NoneInsideAScopedPolicy) {
  const fla::ScopedPolicy policy({.deny = {{"first"}}});
  EXPECT_EQ(allocations_of([] { (void)mix_chunk({}); }), 0u);
}

/// Always fails, before the others.
struct Broken final : fla_test::MixBackend {
  fla::BackendInfo info() const override { return {.name = "broken", .priority = 0}; }
  fla_test::MixResult mix_chunk(const MixArgs&) override {
    throw fla::BackendError("out of workspace", fla::BackendError::Wrote::nothing);
  }
};

TEST_F(Allocation, NoneInACallThatSkipsAnOpenBreaker) {
  const auto broken = fla::register_backend("mix", std::make_unique<Broken>());
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback, .breaker_threshold = 1});
  ASSERT_EQ(mix_chunk({}).by, "picky");
  EXPECT_EQ(allocations_of([] { (void)mix_chunk({}); }), 0u);
}

TEST_F(Allocation, NoneWhileABreakersTrialIsUnderWay) {
  fla::dispatch::Breaker breaker("mix", "mix_chunk", "tried");
  breaker.failed({.threshold = 1, .cool_down_ms = 0}, "out of workspace");
  ASSERT_NE(breaker.admits_trial(), 0u);
  EXPECT_EQ(allocations_of([&breaker] { EXPECT_EQ(breaker.admits_trial(), 0u); }), 0u);
}

TEST_F(Allocation, NoneWhenAVerifierRefuses) {
  EXPECT_EQ(allocations_of([] { EXPECT_FALSE(First().mix_chunk_verifier(MixArgs{.K = 3}).ok()); }), 0u);
}

}  // namespace
