#pragma once

#include "tests/backends/chunk_backend.h"

namespace fla_test {

inline constexpr char kIntracardCp[] = "intracard_cp";
using InParts = ChunkBackend<kIntracardCp>;
using IntracardCpTest = InParts::Fixture<testing::Test>;

}  // namespace fla_test
