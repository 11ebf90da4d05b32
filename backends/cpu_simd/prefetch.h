#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fla::cpu_simd {

/// Rows of consecutive tokens.
struct RowStream {
  const std::byte* row;  // of token 0; null: none
  std::ptrdiff_t step;
  std::size_t bytes;
  std::int64_t token, end;  // the first and the last + 1; those behind the sequence's tokens are left out
};

/// Brings the next kRows rows of some streams to L2, spread over `steps` calls of advance().
template <int kRows, std::size_t kStreams>
class RowPrefetch {
 public:
  RowPrefetch(const std::array<RowStream, kStreams>& streams, int steps) : streams_(streams), steps_(steps) {}

  void advance() {
    constexpr int kCount = static_cast<int>(kStreams), kAll = kCount * kRows;
    for (const int end = ++calls_ * kAll / steps_; at_ < end; ++at_) {
      const RowStream& stream = streams_[static_cast<std::size_t>(at_ % kCount)];
      const std::int64_t token = stream.token + at_ / kCount;
      if (stream.row == nullptr || token >= stream.end) continue;
      const std::byte* row = stream.row + token * stream.step;
      for (std::size_t i = 0; i < stream.bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
    }
  }

 private:
  std::array<RowStream, kStreams> streams_;
  int steps_, calls_ = 0, at_ = 0;
};

}  // namespace fla::cpu_simd
