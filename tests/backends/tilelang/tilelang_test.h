#pragma once

#include <string_view>
#include <vector>

#include "tests/backends/chunk_backend.h"

namespace fla_test {

inline constexpr char kTileLang[] = "tilelang";
template <class Base>
using WithTileLang = ChunkBackend<kTileLang>::Fixture<Base>;
using TileLangTest = WithTileLang<testing::Test>;

inline fla::Explanation::Row row_of(const fla::KdaArgs& args, std::string_view function = "chunk_kda") {
  return ChunkBackend<kTileLang>::row_of(args, function);
}
inline fla::KdaResult tiled(const fla::KdaArgs& host, fla::conformance::DeviceIndices indices =
                                                          fla::conformance::DeviceIndices::on_device) {
  return ChunkBackend<kTileLang>::result_of(host, indices);
}
inline Errors errors_of(const fla::KdaArgs& host) { return ChunkBackend<kTileLang>::errors_of(host); }

/// A specification for every pair of instances: three head sizes, two dtypes, batches and packed sequences;
/// V is another size than K in each of the second ones.
inline std::vector<fla::cases::KdaSpec> specs_of_instances(std::int64_t T) {
  using fla::DType;
  std::vector<fla::cases::KdaSpec> specs;
  for (const std::int64_t K : {64, 128, 256}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      specs.push_back({.B = 2, .T = T, .H = 1, .HV = 2, .K = K, .V = K, .dtype = dtype});
      specs.push_back({.H = 2,
                       .K = K,
                       .V = K == 256 ? 64 : 2 * K,
                       .lengths = {T / 2, 0, T - T / 2 - 1, 1},
                       .dtype = dtype,
                       .gate_dtype = dtype});
    }
  }
  return specs;
}

}  // namespace fla_test
