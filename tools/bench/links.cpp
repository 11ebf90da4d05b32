#include "tools/bench/links.h"

#include <algorithm>
#include <bit>

namespace fla::bench {
namespace {

/// Of a tree over so many.
double steps(std::int64_t ranks) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(ranks - 1)));
}

}  // namespace

double all_gather_seconds(const Links& links, std::int64_t ranks, double bytes) {
  const std::int64_t near = std::min(ranks, links.node), nodes = (ranks + near - 1) / near;
  const double outside = static_cast<double>(ranks - near) * bytes / static_cast<double>(near);
  return steps(near) * links.nvlink_step + steps(nodes) * links.infiniband_step +
         static_cast<double>(ranks - 1) * bytes / links.nvlink + outside / links.infiniband;
}

double all_to_all_seconds(const Links& links, std::int64_t ranks, double bytes) {
  const std::int64_t near = std::min(ranks, links.node);
  const double part = bytes / static_cast<double>(ranks);
  return (near > 1 ? links.nvlink_step : 0) + (ranks > near ? links.infiniband_step : 0) +
         static_cast<double>(near - 1) * part / links.nvlink +
         static_cast<double>(ranks - near) * part / links.infiniband;
}

}  // namespace fla::bench
