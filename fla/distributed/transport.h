#pragma once

#include <cstdint>
#include <span>

#include "fla/core/device.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"

namespace fla::distributed {

/// How ranks give each other blocks of floats: a communicator of the caller's.
class FLA_API Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport();

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Where blocks are. With the CPU's, tensors of calls may be on a GPU: their blocks are copied, and the
  /// call waits for its stream. With a GPU's, all tensors of calls are on that GPU.
  virtual Device device() const { return Device::cpu(); }

  /// What all ranks gave, in their order. Rank r gives counts[r] floats; every rank calls with the same
  /// counts. `mine` and the result are f32 on device(), contiguous, and used in the order of `stream`. Throws
  /// BackendError, and then at every later call, when a rank did not take part.
  virtual Tensor all_gather(Tensor mine, std::span<const std::int64_t> counts, Stream stream) = 0;

  /// Returns when everything put on the stream of that device so far is done. Throws BackendError when an
  /// exchange failed, one of a graph that was launched there included.
  virtual void synchronize(Device device, Stream stream);
};

}  // namespace fla::distributed
