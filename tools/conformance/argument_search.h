#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// Tokens of a call that a backend may take for its length alone.
inline constexpr std::int64_t kLongCall = 1000;

/// The first call of every group of seeds that the target takes, of long ones where it takes no other: where
/// a search begins.
std::vector<CallForm> taken_seeds(const SearchedOp& op, const Target& target);

/// Every function of the op at a backend, on a device also with indices on the host.
std::vector<Target> targets(const SearchedOp& op, const std::string& backend, Device device);

/// From calls that the backend takes, one argument at a time: every value of every argument that it does not
/// refuse is shown to be right. What it refuses, and what no valid call could be made of, is listed.
void check_arguments_one_at_a_time(const SearchedOp& op, Report& report, const Options& options);

/// Calls that have several of those values at once.
void check_arguments_together(const SearchedOp& op, Report& report, const Options& options);

}  // namespace fla::conformance
