#pragma once

namespace fla::cuda_decode {

inline constexpr int kMostTokens = 8;  ///< of a sequence

}  // namespace fla::cuda_decode
