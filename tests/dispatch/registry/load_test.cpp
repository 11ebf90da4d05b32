#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/observe/ops.h"
#include "tests/dispatch/explained.h"

/// An op whose backends are registered by FLA_REGISTER_BACKEND and go wrong while they load.
namespace loading {

struct Args {
  using Result = int;
};
int sum(const Args& args);
namespace original {
int sum(const Args& args);
}
DISPATCH("loading", int, sum, const Args&) { return 1; }

class Backend : public fla::BaseBackend {
 public:
  virtual int sum(const Args&) { return 0; }
  virtual fla::Verdict sum_verifier(const Args&) const { return fla::accept(); }
  template <class Type>
  static std::vector<fla::dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(Backend, Type, sum)};
  }
};

constexpr fla::BackendInfo named(std::string_view name, int priority) {
  return {.name = name, .package = "", .env_var = "", .priority = priority, .doc = ""};
}

struct Broken final : Backend {
  Broken() { throw std::runtime_error("libbroken.so: cannot open shared object file"); }
  fla::BackendInfo info() const override { return named("broken", 1); }
  int sum(const Args&) override { return 10; }
};
FLA_REGISTER_BACKEND(loading, broken, Broken);

struct Blind final : Backend {
  fla::BackendInfo info() const override { return named("blind", 2); }
  fla::Availability is_available() const override { throw std::runtime_error("cannot see the device"); }
  int sum(const Args&) override { return 20; }
};
FLA_REGISTER_BACKEND(loading, blind, Blind);

struct Misnamed final : Backend {
  fla::BackendInfo info() const override { return named("somebody_else", 3); }
  int sum(const Args&) override { return 30; }
};
FLA_REGISTER_BACKEND(loading, misnamed, Misnamed);

struct Sound final : Backend {
  fla::BackendInfo info() const override { return named("sound", 4); }
  int sum(const Args&) override { return 40; }
};
FLA_REGISTER_BACKEND(loading, sound, Sound);

}  // namespace loading

namespace {

using fla_test::row_of;

TEST(Loading, ErrorsAreKeptAndTheOthersWork) {
  EXPECT_EQ(loading::sum({}), 40);
  const fla::Explanation explanation = fla::explain("loading", "sum", loading::Args{});
  EXPECT_EQ(explanation.selected, "sound");
  EXPECT_EQ(explanation.rows.size(), 4u);
}

TEST(Loading, BackendThatThrewWhileItWasMadeIsUnavailableWithItsWords) {
  const auto row = row_of("broken", fla::explain("loading", "sum", loading::Args{}));
  EXPECT_EQ(row.state, "unavailable");
  EXPECT_EQ(row.reason, "did not load: libbroken.so: cannot open shared object file");
}

TEST(Loading, BackendThatCouldNotLookIsUnavailableWithItsWords) {
  const auto row = row_of("blind", fla::explain("loading", "sum", loading::Args{}));
  EXPECT_EQ(row.state, "unavailable");
  EXPECT_THAT(row.reason, testing::HasSubstr("cannot see the device"));
}

TEST(Loading, BackendUnderTwoNamesIsUnavailable) {
  const auto row = row_of("misnamed", fla::explain("loading", "sum", loading::Args{}));
  EXPECT_EQ(row.state, "unavailable");
  EXPECT_EQ(row.reason, "did not load: it is registered as misnamed but calls itself somebody_else");
}

TEST(Loading, ErrorsAreListedWithTheOps) {
  for (const fla::OpStatus& op : fla::ops()) {
    if (op.name != "loading") continue;
    const auto broken =
        std::ranges::find(op.backends, "broken", [](const auto& backend) { return backend.info.name; });
    ASSERT_NE(broken, op.backends.end());
    EXPECT_FALSE(broken->available);
    EXPECT_EQ(broken->reason, "did not load: libbroken.so: cannot open shared object file");
    return;
  }
  FAIL() << "the op is not listed";
}

}  // namespace
