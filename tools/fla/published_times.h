#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "tools/fla/bench_cuda.h"

namespace fla::command {

/// A column of times, in milliseconds, and whose they are.
struct PeerColumn {
  std::string_view title, peer;
  LaunchMode mode;
};

/// What tools/bench/results/peers.txt, which is compiled in, says below a title: the times of the one row
/// that has these cells, by the titles of their columns. None for what was not measured. Throws
/// std::logic_error where there is no such title or table.
std::vector<PublishedTime> published_times(std::string_view title,
                                           const std::map<std::string_view, std::string_view>& where,
                                           std::span<const PeerColumn> columns);

}  // namespace fla::command
