#pragma once

#include <cstdint>

namespace fla::tilelang {

inline constexpr std::int64_t kChunk = 64;    ///< tokens
inline constexpr std::int64_t kColumns = 64;  ///< of values, that a block has

}  // namespace fla::tilelang
