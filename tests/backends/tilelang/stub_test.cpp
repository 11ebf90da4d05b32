#include <gtest/gtest.h>

#include "backends/tilelang/tilelang.h"

namespace {

TEST(TileLangWithoutKernels, SaysWhyAndLaunchesNothing) {
  EXPECT_EQ(fla::tilelang::why_not_built(), "its kernels are not in this build: no headers");
  EXPECT_EQ(fla::tilelang::instances_of({}), "");
  EXPECT_EQ(fla::tilelang::workspace({}), 0u);
  EXPECT_EQ(fla::tilelang::launch({}, nullptr, nullptr), cudaErrorNotSupported);
}

}  // namespace
