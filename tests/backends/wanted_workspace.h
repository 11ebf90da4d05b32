#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "fla/core/workspace.h"
#include "tests/backends/metadata_call.h"

namespace fla_test {

/// The bytes of workspace that a backend wants for a call: what it says of one byte. row_of(args) is its row
/// of an explanation.
template <class Args, class RowOf>
std::size_t bytes_wanted(Args args, RowOf&& row_of) {
  args.workspace = {MetadataTensors().tensor({1}).data(), 1};
  const std::string reason = row_of(args).reason;
  const std::string before = "requires a workspace of ", after = " bytes, got 1";
  if (!reason.starts_with(before) || !reason.ends_with(after)) return 0;
  return std::stoull(reason.substr(before.size()));
}

/// A workspace that is too small, or not aligned, is refused; one that has just the bytes is not.
template <class Call, class RowOf>
void expect_workspaces_judged(Call& call, RowOf&& row_of) {
  const std::size_t bytes = bytes_wanted(call.args, row_of);
  ASSERT_GT(bytes, 0u);
  EXPECT_LE(bytes, fla::workspace_size(call.args));
  call.args.workspace = {call.tensor({1}).data(), bytes - 1};
  EXPECT_EQ(row_of(call.args).reason,
            "requires a workspace of " + std::to_string(bytes) + " bytes, got " + std::to_string(bytes - 1));
  call.args.workspace = {call.tensor({1}).template as<std::byte>() + 128, bytes};
  EXPECT_EQ(row_of(call.args).reason,
            "requires a workspace aligned to 256 bytes, got an address 128 bytes off");
  call.args.workspace = {call.tensor({1}).data(), bytes};
  EXPECT_EQ(row_of(call.args).state, "selected");
}

}  // namespace fla_test
