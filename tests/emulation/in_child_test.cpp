#include "tests/emulation/in_child.h"

#include <gtest/gtest.h>

namespace fla::emulation {
namespace {

TEST(InChild, ReturnsTheAnswer) {
  EXPECT_EQ(in_child([] { return true; }).answer, true);
  EXPECT_EQ(in_child([] { return false; }).answer, false);
}

TEST(InChild, HasNoAnswerWhenTheTimeIsUp) {
  const ChildAnswer child = in_child(
      [] {
        while (getpid() > 0) {
        }
        return true;
      },
      0.01);
  EXPECT_EQ(child.answer, std::nullopt);
  EXPECT_EQ(child.end, "did not end in time");
}

TEST(InChild, HasNoAnswerWhenTheChildDies) {
  const ChildAnswer killed = in_child([] { return raise(SIGKILL) == 0; });
  EXPECT_EQ(killed.answer, std::nullopt);
  EXPECT_EQ(killed.end, "was ended by a signal: Killed");
  const ChildAnswer left = in_child([] {
    _exit(1);
    return true;
  });
  EXPECT_EQ(left.answer, std::nullopt);
  EXPECT_EQ(left.end, "exited with 1");
}

}  // namespace
}  // namespace fla::emulation
