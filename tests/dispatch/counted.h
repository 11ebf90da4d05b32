#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fla/dispatch/counters.h"

namespace fla_test {

/// What was counted for one backend of mix_chunk so far; all zero when nothing was.
inline fla::BackendCounters counted(std::string_view backend, std::string_view function = "mix_chunk") {
  for (fla::BackendCounters& row : fla::counters()) {
    if (row.op == "mix" && row.function == function && row.backend == backend) return row;
  }
  return {};
}

inline std::uint64_t refusals(const fla::BackendCounters& row) {
  std::uint64_t sum = 0;
  for (const auto& refusal : row.refused) sum += refusal.count;
  return sum;
}

}  // namespace fla_test
