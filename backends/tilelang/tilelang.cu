#include <algorithm>
#include <bit>
#include <limits>

#include "backends/tilelang/generated/instances.h"
#include "backends/tilelang/sizes.h"
#include "backends/tilelang/tilelang.h"
#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

namespace fla::tilelang {
namespace {

using cuda::Indices;
using cuda::Parameters;
using cuda::Rows;
using cuda::States;
using generated::KdaPrepare;
using generated::KdaState;

template <class Arguments, std::size_t count>
const Instance<Arguments>* find(const Instance<Arguments> (&instances)[count], const RecurrenceCall& call) {
  for (const Instance<Arguments>& instance : instances) {
    if (instance.K == call.K && instance.dtype == call.q.dtype &&
        instance.varlen == (call.cu_seqlens.data != nullptr))
      return &instance;
  }
  return nullptr;
}

/// Chunks that have a packet: those of all sequences, and with packed ones some that have no tokens, for the
/// host does not know where sequences end.
std::int64_t places_of(const RecurrenceCall& call) {
  if (call.T == 0) return 0;
  return call.cu_seqlens.data ? call.T / kChunk + call.N : call.N * ((call.T + kChunk - 1) / kChunk);
}

/// Numbers of a packet that are f32, as kernels/packets.py lays them out.
constexpr std::size_t vector_width(std::size_t K) { return (K + 3 * kChunk + 127) / 128 * 128; }

/// Packets: what kda_prepare makes of a chunk of one head.
struct Layout {
  std::size_t operators = 0, triangles = 0, vectors = 0, bytes = 0;
};

Layout layout_of(const RecurrenceCall& call) {
  const auto packets = static_cast<std::size_t>(places_of(call) * call.HV),
             K = static_cast<std::size_t>(call.K);
  Layout layout;
  layout.operators = cuda::index_workspace(call);
  layout.triangles = layout.operators + packets * 3 * kChunk * K * 2;
  layout.vectors = layout.triangles + packets * kChunk * kChunk * 2;
  layout.bytes = layout.vectors + packets * vector_width(K) * sizeof(float);
  return layout;
}

/// The kernels read pointers of one type; which of two counts is another argument.
void* address(const void* data) { return const_cast<void*>(data); }
std::int32_t is_f32(DType dtype) { return dtype == DType::f32; }

}  // namespace

std::string_view why_not_built() { return ""; }

std::string instances_of(const RecurrenceCall& call) {
  const auto* prepare = find(generated::kKdaPrepare, call);
  const auto* state = find(generated::kKdaState, call);
  if (!prepare || !state) return "";
  return std::string(prepare->name) + ", " + std::string(state->name);
}

std::size_t workspace(const RecurrenceCall& call) { return layout_of(call).bytes; }

cudaError_t launch(const RecurrenceCall& given, void* workspace, cudaStream_t stream) {
  if (given.N == 0 || given.HV == 0) return cudaSuccess;
  const auto* prepare = find(generated::kKdaPrepare, given);
  const auto* state = find(generated::kKdaState, given);
  if (!prepare || !state) return cudaErrorNotSupported;

  RecurrenceCall call = given;
  if (const cudaError_t error = cuda::place_host_indices(call, workspace, stream); error != cudaSuccess)
    return error;
  const Layout layout = layout_of(given);
  auto* const memory = static_cast<std::byte*>(workspace);
  const auto N = static_cast<std::int32_t>(call.N), tokens = static_cast<std::int32_t>(call.T);

  if (const std::int64_t places = places_of(call); places > 0) {
    const KdaPrepare arguments{
        .q = call.q.data,
        .k = call.k.data,
        .g = call.g.data,
        .g_f32 = call.g.data,
        .beta = call.beta.data,
        .beta_f32 = call.beta.data,
        .A_log = address(call.A_log.data),
        .A_log_f32 = address(call.A_log.data),
        .dt_bias = address(call.dt_bias.data),
        .dt_bias_f32 = address(call.dt_bias.data),
        .cu_seqlens = address(call.cu_seqlens.data),
        .operators = memory + layout.operators,
        .triangles = memory + layout.triangles,
        .vectors = memory + layout.vectors,
        .N = N,
        .tokens = tokens,
        .places = static_cast<std::int32_t>(places),
        .HV = call.HV,
        .group = call.group,
        .q_batch = call.q.batch / 8,
        .q_token = call.q.token / 8,
        .q_head = call.q.head / 8,
        .k_batch = call.k.batch / 8,
        .k_token = call.k.token / 8,
        .k_head = call.k.head / 8,
        .g_batch = call.g.batch,
        .g_token = static_cast<std::int32_t>(call.T > 1 ? call.g.token : 0),
        .g_head = call.g.head,
        .g_channel = call.g.channel,
        .beta_batch = call.beta.batch,
        .beta_token = call.beta.token,
        .beta_head = call.beta.head,
        .A_log_head = call.A_log.head,
        .dt_bias_head = call.dt_bias.head,
        .dt_bias_channel = call.dt_bias.channel,
        .cu_seqlens_stride = call.cu_seqlens.stride,
        .cu_seqlens_wide = call.cu_seqlens.wide,
        .search_steps = static_cast<std::int32_t>(std::bit_width(static_cast<std::uint64_t>(call.N))),
        .g_is_f32 = is_f32(call.g.dtype),
        .beta_is_f32 = is_f32(call.beta.dtype),
        .has_A_log = call.A_log.data != nullptr,
        .A_log_is_f32 = is_f32(call.A_log.dtype),
        .has_dt_bias = call.dt_bias.data != nullptr,
        .dt_bias_is_f32 = is_f32(call.dt_bias.dtype),
        .gate = static_cast<std::int32_t>(call.gate),
        .lower_bound = call.lower_bound,
        .l2norm = call.l2norm,
        .beta_sigmoid = call.beta_sigmoid,
        .beta_factor = call.neg_eigval ? 2.0f : 1.0f};
    if (const cudaError_t error = prepare->launch(arguments, stream); error != cudaSuccess) return error;
  }

  const States &initial = call.initial_state, &final = call.final_state;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return state->launch({.operators = memory + layout.operators,
                        .triangles = memory + layout.triangles,
                        .vectors = memory + layout.vectors,
                        .v = call.v.data,
                        .o = call.o.data,
                        .initial_state = initial.data,
                        .final_state = final.data,
                        .cu_seqlens = address(call.cu_seqlens.data),
                        .read_slots = address(call.read_slots.data),
                        .write_slots = address(call.write_slots.data),
                        .N = N,
                        .tokens = tokens,
                        .HV = call.HV,
                        .V = call.V,
                        .v_batch = call.v.batch / 8,
                        .v_token = call.v.token / 8,
                        .v_head = call.v.head / 8,
                        .o_batch = call.o.batch / 8,
                        .o_token = call.o.token / 8,
                        .o_head = call.o.head / 8,
                        .initial_slot = initial.slot,
                        .initial_head = initial.head,
                        .initial_key = initial.key,
                        .initial_value = initial.value,
                        .final_slot = final.slot,
                        .final_head = final.head,
                        .final_key = final.key,
                        .final_value = final.value,
                        .has_initial = initial.data != nullptr,
                        .has_final = final.data != nullptr,
                        .pool = static_cast<std::int32_t>(std::min(initial.slots, most)),
                        .has_read_slots = call.read_slots.data != nullptr,
                        .read_slots_stride = call.read_slots.stride,
                        .read_slots_wide = call.read_slots.wide,
                        .has_write_slots = call.write_slots.data != nullptr,
                        .write_slots_stride = call.write_slots.stride,
                        .write_slots_wide = call.write_slots.wide,
                        .cu_seqlens_stride = call.cu_seqlens.stride,
                        .cu_seqlens_wide = call.cu_seqlens.wide,
                        .scale = call.scale},
                       stream);
}

}  // namespace fla::tilelang
