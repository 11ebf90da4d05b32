#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fla/core/device_memory.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"

/// Inputs of the benchmarks of decoding steps.
namespace fla::bench {

/// Numbers from `low` to `high`, the same ones for every sequence.
inline fla::Tensor random(fla::Device device, std::vector<std::int64_t> shape, fla::DType dtype, float low,
                          float high) {
  static std::uint64_t seed = 1;
  fla::cases::Random numbers(seed++);
  const fla::Tensor host = fla::Tensor::empty(shape, dtype);
  const std::int64_t one = host.numel() / shape[0];
  for (std::int64_t i = 0; i < one; ++i)
    fla::cases::store(host, i, static_cast<double>(low + (high - low) * numbers.uniform()));
  const auto bytes = static_cast<std::size_t>(one) * fla::size_of(dtype);
  for (std::int64_t n = 1; n < shape[0]; ++n)
    std::copy_n(host.as<std::byte>(), bytes, host.as<std::byte>() + static_cast<std::size_t>(n) * bytes);
  return fla::copy_to(host, device);
}

}  // namespace fla::bench
