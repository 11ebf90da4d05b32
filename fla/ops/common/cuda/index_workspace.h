#pragma once

#include <cstddef>
#include <cstdint>

namespace fla::cuda {

/// Bytes, a multiple of 256, that the indices which lie on the host take in the workspace: N + 1 of
/// cu_seqlens, N of each kind of state indices.
constexpr std::size_t index_workspace(std::int64_t N, bool cu_seqlens, bool read_slots, bool write_slots) {
  const std::int64_t entries = (cu_seqlens ? N + 1 : 0) + (read_slots ? N : 0) + (write_slots ? N : 0);
  return (static_cast<std::size_t>(entries) * sizeof(std::int64_t) + 255) / 256 * 256;
}

}  // namespace fla::cuda
