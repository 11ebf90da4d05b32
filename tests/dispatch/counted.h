#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fla/dispatch/observe/counters.h"

namespace fla_test {

/// What was counted for one backend of a function, mix_chunk unless told, so far; all zero when nothing was.
inline fla::BackendCounters counted(std::string_view backend, std::string_view function = "mix_chunk",
                                    std::string_view op = "mix") {
  for (fla::BackendCounters& row : fla::counters()) {
    if (row.op == op && row.function == function && row.backend == backend) return row;
  }
  return {};
}

inline std::uint64_t refusals(const fla::BackendCounters& row) {
  std::uint64_t sum = 0;
  for (const auto& refusal : row.refused) sum += refusal.count;
  return sum;
}

}  // namespace fla_test
