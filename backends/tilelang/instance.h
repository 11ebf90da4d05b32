#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

#include "fla/core/dtype.h"

namespace fla::tilelang {

/// A kernel for one head size and dtype, for packed sequences or for batches, as tools/tilelang_aot made it.
template <class Arguments>
struct Instance {
  std::string_view name;
  int K;
  DType dtype;  ///< of q, k, v and o
  bool varlen;
  std::string_view signature;  ///< the arguments that it reads
  std::string_view grid;       ///< blocks, of the arguments
  int block;                   ///< threads
  int shared_bytes;
  std::string_view source_sha256;  ///< of the TileLang sources, their parameters and the generator's version
  std::string_view code_sha256;    ///< of the .cu file
  cudaError_t (*launch)(const Arguments&, cudaStream_t);
};

}  // namespace fla::tilelang
