#pragma once

#include <cstdint>

namespace fla::cases {

/// Random numbers that are the same on every machine and with every standard library, fast enough to fill the
/// states of a benchmark. (SplitMix64.)
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// From 0, inclusive, to 1, exclusive.
  float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }

  /// A whole number from low to high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool chance(float probability) { return uniform() < probability; }

  /// Mean 0, variance 1, nearly normal: the sum of four 16-bit uniforms. Never beyond 3.5.
  float normal() {
    const std::uint64_t z = bits();
    const auto sum =
        static_cast<std::int64_t>((z & 0xffffu) + (z >> 16 & 0xffffu) + (z >> 32 & 0xffffu) + (z >> 48));
    return static_cast<float>(sum - 2 * 0xffff) * (1.7320508f / 65536.0f);
  }

 private:
  std::uint64_t state_;
};

}  // namespace fla::cases
