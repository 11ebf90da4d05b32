#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fla/core/dtype.h"

/// kda on one CUDA device, below the library's tensors: a call as plain pointers and strides, small enough to
/// travel as a kernel's argument, and the functions that put it on a stream. The mathematics is in
/// fla/ops/kda/kda.h.
///
/// Every function here only launches, on the current device: no allocation, no synchronisation, no read of
/// device memory by the host. A call can be captured in a graph, also with cu_seqlens and state indices on
/// the device: grids come from T and N, never from their contents. Contents out of range never lead outside
/// the tensors: cu_seqlens is clamped to [0, T], a state index outside the pool counts as negative.
namespace fla::cuda {

/// [B, T, heads, channels]; strides in elements. beta has no channels.
struct Rows {
  void* data = nullptr;
  DType dtype = DType::f32;
  bool packed = false;  ///< four neighbouring channels can be read at once
  std::int64_t batch = 0, token = 0, head = 0, channel = 0;
};

/// [slots, HV, K, V] in whichever layout: `key` and `value` are the strides of those axes. No data: absent.
struct States {
  void* data = nullptr;
  DType dtype = DType::f32;  ///< f32 or bf16
  std::int64_t slots = 0, slot = 0, head = 0, key = 0, value = 0;
};

/// No data: absent.
struct Indices {
  const void* data = nullptr;
  bool wide = false;     ///< int64 instead of int32
  bool on_host = false;  ///< read before the launch returns; kernels only ever see those on the device
  std::int64_t stride = 1;
};

/// [HV] or [HV, K]. No data: absent.
struct Parameters {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t head = 0, channel = 0;
};

enum class Gate : std::uint8_t { given, softplus, bounded };

struct KdaCall {
  std::int64_t T = 0, N = 1;
  int HV = 1, K = 0, V = 0;
  int group = 1;  ///< value heads of a key head
  Rows q{}, k{}, v{}, g{}, beta{}, o{};
  float scale = 1;
  Gate gate = Gate::given;
  float lower_bound = 0;  ///< with Gate::bounded
  Parameters A_log{}, dt_bias{};
  bool l2norm = false, beta_sigmoid = false, neg_eigval = false;
  States initial_state{}, final_state{};  ///< may be the same memory
  Indices read_slots{};                   ///< N entries; absent: sequence n has slot n
  Indices write_slots{};                  ///< N entries; absent: like read_slots. No slot twice in one call
  Indices cu_seqlens{};                   ///< N + 1 entries; absent: a batch is a sequence, T long
};

/// Any K and V from 1 to 256, any strides and dtypes, N * HV * ceil(V / 32) below 2^31. Sequences whose read
/// index is negative get zeros for o and leave the states alone; a negative write index alone only keeps the
/// state from being written. The workspace is 256-byte aligned; its size follows from sizes and from where
/// indices lie. A launch that fails has written nothing but the workspace.
std::size_t recurrent_workspace(const KdaCall& call);
cudaError_t launch_recurrent(const KdaCall& call, void* workspace, cudaStream_t stream);

/// The same contract, in chunks of tokens on the tensor cores, with products as good as f32's.
std::size_t chunk_workspace(const KdaCall& call);
cudaError_t launch_chunk(const KdaCall& call, void* workspace, cudaStream_t stream);

}  // namespace fla::cuda
