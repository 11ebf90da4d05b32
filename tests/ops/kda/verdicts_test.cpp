#include "fla/ops/recurrence/cuda/verdicts.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace {

using fla::cuda::verify_workspace;

TEST(CudaVerdicts, RefuseAWorkspaceThatDoesNotDo) {
  alignas(256) std::byte memory[512];
  EXPECT_EQ(verify_workspace({memory, 511}, 512).reason(), "requires a workspace of 512 bytes, got 511");
  EXPECT_EQ(verify_workspace({memory + 16, 512}, 256).reason(),
            "requires a workspace aligned to 256 bytes, got an address 16 bytes off");
  EXPECT_EQ(verify_workspace({memory, 512}, 512).reason(), "");
  EXPECT_EQ(verify_workspace({memory + 16, 1}, 0).reason(), "");
  EXPECT_EQ(verify_workspace({}, 512).reason(), "");
}

}  // namespace
