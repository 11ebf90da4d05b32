#pragma once

#include <cstddef>

namespace fla::cpu_simd {

/// Cuts aligned pieces off a block of memory. Without memory it only counts what would be needed.
class Carver {
 public:
  explicit Carver(float* memory) : memory_(memory) {}

  float* take(std::size_t floats) {
    constexpr std::size_t kLine = 16;  // 64 bytes
    float* piece = memory_ ? memory_ + used_ : nullptr;
    used_ += (floats + kLine - 1) / kLine * kLine;
    return piece;
  }

  std::size_t used() const { return used_; }

 private:
  float* memory_;
  std::size_t used_ = 0;
};

}  // namespace fla::cpu_simd
