#pragma once

#include <vector>

#include "tests/backends/chunk_call.h"

namespace fla_test {

/// One for every branch of tilelang's verifier that a GPU of compute capability 9.0 can come to, but for the
/// workspace's.
const std::vector<Refusal>& refusals();

/// Calls that look alike and are taken.
const std::vector<Acceptance>& acceptances();

}  // namespace fla_test
