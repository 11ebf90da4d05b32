#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/distributed/placement.h"
#include "fla/distributed/transport.h"

namespace fla::distributed {

/// A batch of packed sequences whose tokens are on several ranks, as one of them sees it. Ranks make theirs
/// with the same cu_seqlens, which are those of the whole batch, and the same placement. Calls with a context
/// are collective: every rank makes them, in the same order. One thread at a time.
class FLA_API Context {
 public:
  /// Throws InvalidArgument as pieces_of does.
  Context(std::unique_ptr<Transport> transport, std::span<const std::int64_t> cu_seqlens,
          const Placement& placement);

  int rank() const { return transport_->rank(); }
  int ranks() const { return transport_->ranks(); }

  /// How many tokens this rank has, and of which sequences: the sequences of its own calls.
  std::int64_t tokens() const { return starts_.back(); }
  std::span<const Piece> pieces() const { return mine_; }
  /// [N + 1], i64 on the host: where they begin. N is how many they are, or 1, an empty sequence, where there
  /// are none. Holds as long as the context does.
  TensorView cu_seqlens() const;

  /// Bytes that this rank gave away in all exchanges so far.
  std::int64_t bytes_sent() const { return bytes_sent_; }

  // ---- for functions over a context

  /// Of all ranks, in the batch's order.
  std::span<const Piece> all_pieces() const { return all_; }
  bool is_mine(const Piece& piece) const;

  /// Gives away a block of `size` floats for each piece of this rank that `gives` says so of, filled by
  /// fill(index among pieces(), block), and returns those of all ranks, one for each of all_pieces(), empty
  /// where there is none.
  std::vector<std::span<const float>> exchange(
      std::int64_t size, bool (*gives)(const Piece&),
      const std::function<void(std::size_t, std::span<float>)>& fill);

 private:
  std::unique_ptr<Transport> transport_;
  std::vector<int> ranks_;  ///< of the parts
  std::vector<Piece> all_, mine_;
  std::vector<std::int64_t> starts_;
  std::vector<float> gathered_;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace fla::distributed
