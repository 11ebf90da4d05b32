#pragma once

#include <cstdint>

/// What one access to shared memory moves, on the device and in its emulation.
namespace fla::flash_kda {

struct alignas(8) F2 {
  float x, y;
};
struct alignas(16) F4 {
  float x, y, z, w;
};
struct alignas(8) U2 {
  std::uint32_t x, y;
};
struct alignas(16) U4 {
  std::uint32_t x, y, z, w;
};

}  // namespace fla::flash_kda
