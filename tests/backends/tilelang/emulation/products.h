#pragma once

#include <cstddef>
#include <cstdint>

namespace fla::tilelang::generated {
inline constexpr std::size_t kSharedBytes = 227 * 1024;
extern constinit thread_local unsigned char buf_dyn_shmem[kSharedBytes];  ///< as TileLang calls it
}  // namespace fla::tilelang::generated

namespace fla::tilelang::emulated {

inline constexpr int kProductDepth = 16;  ///< elements that one wgmma sums up

/// An operand of wgmma in shared memory.
struct Operand {
  std::uint64_t descriptor;
  bool mn_major;  ///< neighbouring rows (of the second operand: columns) lie side by side
};

/// This thread's part of a wgmma of 64 rows and `columns` columns of f16. The sums are added to, or set.
void multiply(Operand a, Operand b, int columns, float* sums, bool add);

}  // namespace fla::tilelang::emulated
