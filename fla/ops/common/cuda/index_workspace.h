#pragma once

#include <cstddef>
#include <cstdint>

namespace fla::cuda {

/// Bytes, a multiple of 256, that so many indices take in the workspace.
constexpr std::size_t index_bytes(std::int64_t entries) {
  return (static_cast<std::size_t>(entries) * sizeof(std::int64_t) + 255) / 256 * 256;
}

/// Those of the indices that lie on the host: N + 1 of cu_seqlens, N of each kind of state indices.
constexpr std::size_t index_workspace(std::int64_t N, bool cu_seqlens, bool read_slots, bool write_slots) {
  const std::int64_t entries = (cu_seqlens ? N + 1 : 0) + (read_slots ? N : 0) + (write_slots ? N : 0);
  return index_bytes(entries);
}

/// Behind them: N accepted numbers of tokens, and the slots of so many checkpoints of each sequence.
constexpr std::size_t kept_index_workspace(std::int64_t N, bool accepted, std::int64_t checkpoints) {
  return index_bytes((accepted ? N : 0) + N * checkpoints);
}

}  // namespace fla::cuda
