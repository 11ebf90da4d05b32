#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

  /// Bytes that this rank gave away in all exchanges so far. A graph that was captured counts once.
  std::int64_t bytes_sent() const { return bytes_sent_; }

  /// Where a transport's blocks are: the CPU, or the GPU that all tensors of calls must be on.
  Device device() const { return transport_->device(); }

  /// Returns when everything put on the stream of that device so far is done. Throws BackendError when an
  /// exchange failed meanwhile. On a GPU's transport exchanges fail in the order of their stream, after the
  /// call has returned; wait for their results with this function.
  void synchronize(Device device, Stream stream) { transport_->synchronize(device, stream); }

  // ---- for functions over a context

  /// Of all ranks, in the batch's order.
  std::span<const Piece> all_pieces() const { return all_; }
  bool is_mine(const Piece& piece) const;

  /// Blocks of all ranks, f32 [size] each, one for each of all_pieces(); undefined where there is none.
  struct Blocks {
    Tensor memory;
    std::vector<TensorView> of;
  };
  /// Gives away a block of `size` floats for each piece of this rank that `gives` says so of, filled by
  /// fill(index among pieces(), block), and returns those of all ranks. Blocks are on `device`, of which
  /// device() is one or the CPU, and used in the order of `stream`.
  Blocks exchange(std::int64_t size, bool (*gives)(const Piece&), Device device, Stream stream,
                  const std::function<void(std::size_t, const TensorView&)>& fill);

 private:
  std::unique_ptr<Transport> transport_;
  std::vector<int> ranks_;  ///< of the parts
  std::vector<Piece> all_, mine_;
  std::vector<std::int64_t> starts_;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace fla::distributed
