#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fla/core/export.h"

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

  /// What all ranks gave, in their order. Rank r gives counts[r] floats; every rank calls with the same
  /// counts. Throws BackendError, and then at every later call, when a rank did not take part.
  virtual std::vector<float> all_gather(std::vector<float> mine, std::span<const std::int64_t> counts) = 0;
};

}  // namespace fla::distributed
