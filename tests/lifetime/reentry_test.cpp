#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/core/child_process.h"
#include "tests/dispatch/mix.h"

namespace {

using fla_test::selected_backend;

TEST(IsAvailable, MayCallTheOp) {
  std::string by;
  const auto backend = fla_test::add({.name = "curious", .priority = 1, .available = [&by] {
                                        by = selected_backend();
                                        return fla::Availability::yes();
                                      }});
  EXPECT_EQ(by, "original");
  EXPECT_EQ(selected_backend(), "curious");
}

TEST(IsAvailable, MayFork) {
  std::string outcome;
  const auto backend = fla_test::add({.name = "forking", .priority = 1, .available = [&outcome] {
                                        outcome = fla_test::outcome_in_child(
                                            [] { return selected_backend() == "original" ? 0 : 1; });
                                        return fla::Availability::yes();
                                      }});
  EXPECT_EQ(outcome, "exit 0");
  EXPECT_EQ(selected_backend(), "forking");
}

TEST(IsAvailable, MayAddAnotherBackend) {
  std::optional<fla::RegisteredBackend> inner;
  const auto outer = fla_test::add({.name = "outer", .priority = 2, .available = [&inner] {
                                      inner.emplace(fla_test::add({.name = "inner", .priority = 1}));
                                      return fla::Availability::yes();
                                    }});
  EXPECT_EQ(selected_backend(), "inner");
  inner.reset();
  EXPECT_EQ(selected_backend(), "outer");
}

}  // namespace
