#include "tests/emulation/recurrence/device.h"

#include <cstdio>
#include <cstdlib>

alignas(16) constinit thread_local char fla::cuda::shared[kSharedBytes];

void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % bytes != 0) {
    std::fprintf(stderr, "a copy of %zu bytes is not aligned\n", bytes);
    std::abort();
  }
  fla::emulation::block::copy(to, from, bytes);
}

namespace fla::cuda {

void run_grid(std::int64_t blocks, int threads, const std::function<void()>& body) {
  emulation::block::run_grid(blocks, threads, {reinterpret_cast<unsigned char*>(shared), kSharedBytes}, body);
}

void mma_tf32(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
              std::uint32_t b0, std::uint32_t b1) {
  const emulation::block::WarpExchange brought({a0, a1, a2, a3, b0, b1});
  const auto number = [&](int lane, int i) {
    return std::bit_cast<float>(brought[lane][static_cast<std::size_t>(i)] & 0xffffe000u);
  };
  const int g = emulation::block::lane() / 4, p = emulation::block::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int column = 2 * p + i % 2;
    double sum = static_cast<double>(d[i]);
    for (int k = 0; k < 8; ++k) {
      sum += static_cast<double>(number(4 * g + k % 4, i / 2 + k / 4 * 2)) *
             static_cast<double>(number(4 * column + k % 4, 4 + k / 4));
    }
    d[i] = static_cast<float>(sum);
  }
}

}  // namespace fla::cuda
