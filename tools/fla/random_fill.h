#pragma once

#include <cstdint>

#include "fla/core/device.h"
#include "fla/core/tensor.h"
#include "tools/cases/random_case.h"

/// Random tensors made on the GPU that they are for; those of a benchmark take the host seconds. What they
/// are like is what tools/cases/random_case.h says. Only in builds with CUDA.
namespace fla::command {

enum class Filling : std::uint8_t {
  normal,   ///< scale times a normal number
  sigmoid,  ///< the sigmoid of one
  gate,     ///< what the gate in the kernel makes a decay of `data`'s kind from
  decay,    ///< such a decay itself
  constant  ///< scale
};

struct RandomFill {
  Filling filling = Filling::normal;
  cases::DataKind data = cases::DataKind::random;
  float scale = 1;
  bool unit_rows = false;  ///< each row, the last axis, is normalised
  bool same_rows = false;  ///< all tokens of a head have the same row; the last axis but one counts heads
  std::uint64_t seed = 1;
};

/// Fills a contiguous float tensor in the order of the stream. The same fill makes the same bits again.
void fill_random(const TensorView& tensor, const RandomFill& fill, Stream stream);

}  // namespace fla::command
