#pragma once

#include <cstdint>

#include "fla/ops/kda/kda.h"

/// What the plugin acme_sum brings, for those who call it by name.
namespace acme {

struct SumArgs {
  using Result = std::int64_t;
  std::int64_t a = 0, b = 0;
};

/// kda.count_tokens, a function beside kda's own, with an argument struct of its own.
struct CountArgs {
  using Result = std::int64_t;
  fla::TensorView q{};
};

}  // namespace acme
