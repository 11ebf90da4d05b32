#include "tests/emulation/recurrence/device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

alignas(1024) constinit thread_local char fla::cuda::shared[kSharedBytes];
namespace fla::cuda_backward {  // whose kernels declare it in their own namespace
extern constinit thread_local char shared[cuda::kSharedBytes] __attribute__((alias("_ZN3fla4cuda6sharedE")));
}

void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % bytes != 0) {
    std::fprintf(stderr, "a copy of %zu bytes is not aligned\n", bytes);
    std::abort();
  }
  fla::emulation::block::copy(to, from, bytes);
}

namespace fla::cuda {
namespace {

/// What every f16 stands for: products read so many of them that looking up is faster than working it out.
const std::vector<float> numbers_of_f16 = [] {
  std::vector<float> numbers(1 << 16);
  for (std::size_t bits = 0; bits < numbers.size(); ++bits)
    numbers[bits] = to_float(f16{static_cast<std::uint16_t>(bits)});
  return numbers;
}();

struct BulkCopy {
  Arrival* arrival;
  void* to;
  std::vector<std::byte> bytes;
};
std::vector<BulkCopy> late_copies;

void arrive(void* to, const void* from, std::size_t bytes, Arrival& arrival) {
  std::memcpy(to, from, bytes);
  arrival.missing -= static_cast<std::int32_t>(bytes);
  if (arrival.missing == 0) ++arrival.round;
}

}  // namespace

void copy_bulk(void* to, const void* from, std::uint32_t bytes, Arrival& arrival) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0 ||
      bytes % 16 != 0) {
    std::fprintf(stderr, "a bulk copy of %u bytes is not aligned\n", bytes);
    std::abort();
  }
  if (!emulation::block::copies_are_late()) return arrive(to, from, bytes, arrival);
  const auto* const data = static_cast<const std::byte*>(from);
  late_copies.push_back({&arrival, to, {data, data + bytes}});
}

void Arrival::wait(int of_round) {
  for (; round <= of_round; emulation::block::let_others_run()) {
    std::erase_if(late_copies, [&](const BulkCopy& copy) {
      if (copy.arrival != this) return false;
      arrive(copy.to, copy.bytes.data(), copy.bytes.size(), *this);
      return true;
    });
    if (round > of_round) return;
  }
}

dim3 grid_size;

void run_grid(dim3 grid, int threads, const std::function<void()>& body) {
  grid_size = grid;
  emulation::block::Index& block = emulation::block::block_index;
  for (block.z = 0; block.z < static_cast<int>(grid.z); ++block.z) {
    for (block.y = 0; block.y < static_cast<int>(grid.y); ++block.y) {
      emulation::block::run_grid(grid.x, threads, {reinterpret_cast<unsigned char*>(shared), kSharedBytes},
                                 body);
    }
  }
}

void mma_tf32(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
              std::uint32_t b0, std::uint32_t b1) {
  const emulation::block::WarpExchange brought({a0, a1, a2, a3, b0, b1});
  const int g = emulation::block::lane() / 4, p = emulation::block::lane() % 4;
  double left[2][8], right[2][8];
  for (std::size_t k = 0; k < 4; ++k) {
    const auto number = [](std::uint32_t word) {
      return static_cast<double>(std::bit_cast<float>(word & 0xffffe000u));
    };
    const emulation::block::Words& row = brought[4 * g + static_cast<int>(k)];
    for (std::size_t i = 0; i < 2; ++i) {
      const emulation::block::Words& column =
          brought[4 * (2 * p + static_cast<int>(i)) + static_cast<int>(k)];
      left[i][k] = number(row[i]), left[i][k + 4] = number(row[i + 2]);
      right[i][k] = number(column[4]), right[i][k + 4] = number(column[5]);
    }
  }
  double sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = static_cast<double>(d[i]);
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < 4; ++i) sums[i] += left[i / 2][k] * right[i % 2][k];
  for (int i = 0; i < 4; ++i) d[i] = static_cast<float>(sums[i]);
}

template <class T>
std::uint32_t pack(float x, float y) {
  return std::bit_cast<std::uint16_t>(from_float<T>(x)) |
         std::uint32_t{std::bit_cast<std::uint16_t>(from_float<T>(y))} << 16;
}
std::uint32_t pack_f16(float x, float y) { return pack<f16>(x, y); }
std::uint32_t pack_bf16(float x, float y) { return pack<bf16>(x, y); }

template <class T>
float2 unpack(std::uint32_t word) {
  const auto number = [](std::uint32_t bits) {
    if constexpr (std::is_same_v<T, f16>) return numbers_of_f16[bits];
    return to_float(std::bit_cast<T>(static_cast<std::uint16_t>(bits)));
  };
  return {number(word & 0xffff), number(word >> 16)};
}
float2 unpack_f16(std::uint32_t word) { return unpack<f16>(word); }
float2 unpack_bf16(std::uint32_t word) { return unpack<bf16>(word); }

std::uint32_t multiply_f16(std::uint32_t x, std::uint32_t y) {
  const float2 a = unpack_f16(x), b = unpack_f16(y);
  return pack_f16(a.x * b.x, a.y * b.y);
}
std::uint32_t larger_f16(std::uint32_t x, std::uint32_t y) {
  const float2 a = unpack_f16(x), b = unpack_f16(y);
  return pack_f16(std::fmax(a.x, b.x), std::fmax(a.y, b.y));
}
std::uint32_t larger_bf16(std::uint32_t x, std::uint32_t y) {
  const float2 a = unpack_bf16(x), b = unpack_bf16(y);
  return pack_bf16(std::fmax(a.x, b.x), std::fmax(a.y, b.y));
}

template <class T>
void mma(float (&d)[4], const emulation::block::WarpExchange& brought) {
  const int g = emulation::block::lane() / 4, p = emulation::block::lane() % 4;
  double left[2][16], right[2][16];
  for (int k = 0; k < 16; k += 2) {
    const auto put = [&](double(&row)[16], int lane, int word) {
      const float2 x = unpack<T>(brought[lane][static_cast<std::size_t>(word)]);
      row[k] = static_cast<double>(x.x), row[k + 1] = static_cast<double>(x.y);
    };
    const int lane = k % 8 / 2, upper = k / 8;
    for (int i = 0; i < 2; ++i) {
      put(left[i], 4 * g + lane, i + 2 * upper);
      put(right[i], 4 * (2 * p + i) + lane, 4 + upper);
    }
  }
  double sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = static_cast<double>(d[i]);
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 4; ++i) sums[i] += left[i / 2][k] * right[i % 2][k];
  for (int i = 0; i < 4; ++i) d[i] = static_cast<float>(sums[i]);
}
void mma_f16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
             std::uint32_t b0, std::uint32_t b1) {
  mma<f16>(d, emulation::block::WarpExchange({a0, a1, a2, a3, b0, b1}));
}
void mma_bf16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
              std::uint32_t b0, std::uint32_t b1) {
  mma<bf16>(d, emulation::block::WarpExchange({a0, a1, a2, a3, b0, b1}));
}

namespace {
std::uint32_t place_of_row(SharedAddress row) {
  const std::uintptr_t at = row - shared_address(shared);
  if (at % 16 != 0 || at >= kSharedBytes) {
    std::fprintf(stderr, "rows of matrices are not aligned, or not in shared memory\n");
    std::abort();
  }
  return static_cast<std::uint32_t>(at);
}
}  // namespace

uint4 load_matrices(SharedAddress row, bool transposed) {
  const char* const begin = shared;
  const emulation::block::WarpExchange brought({place_of_row(row)});
  const int g = emulation::block::lane() / 4, p = emulation::block::lane() % 4;
  const auto number = [&](int matrix, int at_row, int column) {
    return std::uint32_t{
        reinterpret_cast<const std::uint16_t*>(begin + brought[8 * matrix + at_row][0])[column]};
  };
  std::uint32_t words[4];
  for (int m = 0; m < 4; ++m) {
    words[m] = transposed ? number(m, 2 * p, g) | number(m, 2 * p + 1, g) << 16
                          : number(m, g, 2 * p) | number(m, g, 2 * p + 1) << 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

void store_matrices(SharedAddress row, const uint4& x) {
  const emulation::block::WarpExchange brought({place_of_row(row)});
  const int g = emulation::block::lane() / 4, p = emulation::block::lane() % 4;
  const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
  for (int m = 0; m < 4; ++m)
    std::memcpy(shared + brought[8 * m + g][0] + 4 * p, words + m, sizeof(std::uint32_t));
}

std::uint32_t pack_finite_f16(float x, float y) {
  constexpr float kMost = 65504;
  return pack_f16(std::clamp(x, -kMost, kMost), std::clamp(y, -kMost, kMost));
}

namespace {

/// Of an operand, as the hardware finds it: eight rows are 1024 bytes, and bits 7 to 9 of an address turn
/// bits 4 to 6.
float operand_number(bool rows_are_k, std::uint64_t operand, int k, int other) {
  const char* const begin = shared;
  const int row = rows_are_k ? k : other, column = rows_are_k ? other : k;
  std::uintptr_t at = operand - shared_address(begin) +
                      static_cast<std::uintptr_t>(row / 8 * 1024 + row % 8 * 128 + column * 2);
  at ^= at >> 3 & 0x70;
  return numbers_of_f16[*reinterpret_cast<const std::uint16_t*>(begin + at)];
}

}  // namespace

void left_numbers(const uint4& a, LeftNumbers& numbers) {
  const emulation::block::WarpExchange brought({a.x, a.y, a.z, a.w});
  const int g = emulation::block::lane() / 4;
  for (int i = 0; i < 32; ++i) {
    const int k = i % 16;
    const std::uint32_t word = brought[4 * g + k % 8 / 2][i / 16 + k / 8 * 2];
    numbers[i / 16][k] = to_float(std::bit_cast<f16>(static_cast<std::uint16_t>(word >> k % 2 * 16)));
  }
}
void left_numbers(bool rows_are_k, std::uint64_t a, LeftNumbers& numbers) {
  const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + emulation::block::lane() / 4;
  for (int i = 0; i < 32; ++i)
    numbers[i / 16][i % 16] = operand_number(rows_are_k, a, i % 16, row + i / 16 * 8);
}

void add_product(int tiles, float (*d)[4], const LeftNumbers& a, bool rows_are_k, std::uint64_t b) {
  const int p = emulation::block::lane() % 4;
  for (int tile = 0; tile < tiles; ++tile) {
    float sums[4] = {};
    for (int k = 0; k < 16; ++k) {
      const int column = 8 * tile + 2 * p;
      const float right[2] = {operand_number(rows_are_k, b, k, column),
                              operand_number(rows_are_k, b, k, column + 1)};
      for (int i = 0; i < 4; ++i) sums[i] += a[i / 2][k] * right[i % 2];
    }
    for (int i = 0; i < 4; ++i) d[tile][i] += sums[i];
  }
}

}  // namespace fla::cuda
