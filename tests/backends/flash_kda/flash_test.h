#pragma once

#include <string_view>
#include <vector>

#include "tests/backends/chunk_backend.h"

namespace fla_test {

inline constexpr char kFlashKda[] = "flash_kda";
template <class Base>
using OnHopper = ChunkBackend<kFlashKda>::Fixture<Base>;
using FlashTest = OnHopper<testing::Test>;

inline fla::Explanation::Row row_of(const fla::KdaArgs& args, std::string_view function = "chunk_kda") {
  return ChunkBackend<kFlashKda>::row_of(args, function);
}
inline fla::KdaResult flashed(const fla::KdaArgs& host, fla::conformance::DeviceIndices indices =
                                                            fla::conformance::DeviceIndices::on_device) {
  return ChunkBackend<kFlashKda>::result_of(host, indices);
}
inline Errors errors_of(const fla::KdaArgs& host) { return ChunkBackend<kFlashKda>::errors_of(host); }

/// A call for every route: many heads, few; packed; one that is cut into segments.
inline std::vector<fla::cases::KdaSpec> specs_of_routes() {
  using fla::DType;
  return {
      {.T = 200, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16},
      {.B = 2, .T = 130, .H = 70, .HV = 140, .K = 128, .V = 128, .dtype = DType::f16},
      {.H = 2, .HV = 4, .K = 128, .V = 128, .lengths = {10, 70, 0, 300}, .dtype = DType::bf16},
      {.T = 3000, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .data = fla::cases::DataKind::slow},
  };
}

}  // namespace fla_test
