#pragma once

#include <cstdint>

namespace fla {

/// The tokens of a sequence, and the batch that they lie in.
struct Sequence {
  std::int64_t batch, begin, end;
};

}  // namespace fla
