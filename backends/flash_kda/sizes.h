#pragma once

#include <cstdint>

/// What the kernels are made for; the verifier and they agree on it here.
namespace fla::flash_kda {

inline constexpr std::int32_t kHead = 128;  ///< K, and V of a slice; or half of it, padded
inline constexpr std::int32_t kChunk = 64;  ///< tokens of a chunk
inline constexpr std::int32_t kMostSequences =
    8192;  ///< that are packed: the plan's block holds their lengths

}  // namespace fla::flash_kda
