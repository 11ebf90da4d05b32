#include <cstdint>

#include "backends/intracard_cp/parts.h"
#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/common/cuda/memory_parts.h"
#include "fla/ops/merge/merged_state.cuh"
#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/identity.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

namespace fla::intracard_cp {
namespace {

using common::Indices;
using common::Slots;
using common::States;
using cuda::MemoryParts;

constexpr int kCutThreads = 128;

/// The indices of calls whose sequences are the parts.
struct PartIndices {
  std::int64_t* begin;       ///< parts + 1 entries: cu_seqlens
  std::int64_t* read;        ///< slots of the states before parts
  std::int64_t* write;       ///< slots of the call's final states, of last parts
  std::int64_t* summary;     ///< where R goes; none of last parts
  std::int64_t* transition;  ///< likewise P; none where the state before is zero
};

/// The workspace, cut up.
struct Memory {
  void* indices = nullptr;  ///< of the call, where they lie on the host
  PartIndices parts{};
  float *zero = nullptr, *identity = nullptr;
  float* P = nullptr;       ///< [parts, HV, K, K], of additive ops [parts, HV, K]
  float* states = nullptr;  ///< [parts, HV, K, V]: R, then the state before the part
  char* kernels = nullptr;
  std::size_t bytes = 0;

  Memory(const RecurrenceCall& call, const CallExtras& extras, const Cut& cut, void* memory) {
    const std::int64_t all = call.N * cut.parts, heads = all * call.HV, columns = columns_of(call);
    MemoryParts from{static_cast<char*>(memory)};
    char* given = nullptr;
    from.next(zero, 1), from.next(identity, columns * columns);
    from.next(given, static_cast<std::int64_t>(cuda::index_workspace(call)));
    indices = given;
    from.next(parts.begin, all + 1);
    for (std::int64_t** const slots : {&parts.read, &parts.write, &parts.summary, &parts.transition})
      from.next(*slots, all);
    from.next(P, heads * call.K * columns), from.next(states, heads * call.K * call.V);
    const RecurrenceCall whole = call_of_parts(call, cut, parts);
    from.next(kernels, static_cast<std::int64_t>(cuda::chunk_workspace(whole, {.pair = extras.pair})));
    bytes = from.bytes;
  }

  /// Of a row of P.
  static int columns_of(const RecurrenceCall& call) { return call.rule == Rule::additive ? 1 : call.K; }

  /// The call with parts for its sequences, without states.
  static RecurrenceCall call_of_parts(const RecurrenceCall& call, const Cut& cut, const PartIndices& parts) {
    RecurrenceCall whole = call;
    if (!call.cu_seqlens.data) whole.T = call.N * call.T;
    whole.N = call.N * cut.parts;
    whole.cu_seqlens = {.data = parts.begin, .wide = true};
    whole.read_slots = {.data = parts.read, .wide = true};
    whole.write_slots = {};
    whole.initial_state = {.slots = common::kAnySlot};
    whole.final_state = {};
    return whole;
  }
};

/// A sequence's tokens in the whole call, and its parts: `count` of those numbers that it has.
struct Parts {
  std::int64_t begin, end, first, tokens, count;

  __device__ Parts(const RecurrenceCall& call, const Cut& cut, std::int64_t n) : first(n * cut.parts) {
    const Sequence sequence = sequence_of(call, n);
    const std::int64_t before = sequence.batch * call.T, length = sequence.end - sequence.begin;
    begin = before + sequence.begin, end = before + sequence.end;
    const std::int64_t even = (length + cut.parts - 1) / cut.parts;
    tokens = max(cut.least, (even + kTokensMultiple - 1) / kTokensMultiple * kTokensMultiple);
    count = length > 0 ? (length + tokens - 1) / tokens : 1;
  }
};

/// A thread a part, and one for the end of the last one.
__global__ void __launch_bounds__(kCutThreads)
    write_parts(const __grid_constant__ RecurrenceCall call, const Cut cut, const PartIndices to) {
  const std::int64_t part = std::int64_t{blockIdx.x} * kCutThreads + threadIdx.x;
  const std::int64_t all = call.N * cut.parts;
  if (part > all) return;
  const std::int64_t n = min(part / cut.parts, call.N - 1);
  const Parts own(call, cut, n);
  const std::int64_t i = part - own.first;
  to.begin[part] = min(own.begin + i * own.tokens, own.end);
  if (part == all) return;
  const Slots slots = common::slots_of(call, n);
  const std::int64_t slot = slots.read < 0 || i >= own.count ? -1 : part;
  const bool last = i >= own.count - 1;
  to.read[part] = slot;
  to.write[part] = slot >= 0 && last ? slots.write : -1;
  to.summary[part] = last ? -1 : slot;
  to.transition[part] = last || (i == 0 && !call.initial_state.data) ? -1 : slot;
}

/// States before parts take the place of R, part after part of a sequence. The blocks of merge.
__global__ void __launch_bounds__(cuda::kMergeThreads)
    carry(const __grid_constant__ RecurrenceCall call, const Cut cut, const States states,
          const States transitions) {
  __shared__ cuda::MergeMemory memory;
  const int blocks = (call.V + cuda::kMergeValues - 1) / cuda::kMergeValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const std::int64_t slot = common::slots_of(call, n).read;
  if (slot < 0) return;
  const Parts parts(call, cut, n);
  cuda::MergedState merged(memory, call.K, call.V, static_cast<int>(blockIdx.x % blocks));
  merged.load(call.initial_state, slot, head);
  for (std::int64_t i = 0; i < parts.count; ++i) {
    const std::int64_t part = parts.first + i;
    const bool more = i + 1 < parts.count;
    float* const before = static_cast<float*>(states.data) + states.offset(part, head) + merged.value;
    float next[cuda::kMergeRowsEach];
    if (more && (i > 0 || call.initial_state.data)) {
      const float* const P = static_cast<const float*>(transitions.data) + transitions.offset(part, head);
      merged.multiply({P, transitions.key, transitions.value, call.rule == Rule::additive}, next);
    } else {
      merged.rows([&](int r, int) { next[r] = 0; });
    }
    merged.rows([&](int r, int key) {
      if (!merged.there) return;
      float* const at = before + key * states.key;
      if (more) next[r] += *at;
      *at = merged.state[key][merged.column];
    });
    merged.replace(next);
  }
}

}  // namespace

std::size_t workspace_bytes(const RecurrenceCall& call, const CallExtras& extras, const Cut& cut) {
  return Memory(call, extras, cut, nullptr).bytes;
}

cudaError_t launch(const RecurrenceCall& given, const CallExtras& given_extras, const Cut& cut,
                   void* workspace, cudaStream_t stream) {
  const Memory memory(given, given_extras, cut, workspace);
  const CallExtras extras{.pair = given_extras.pair};
  RecurrenceCall call = given;
  cudaError_t error = cuda::place_host_indices(call, memory.indices, stream);
  if (error != cudaSuccess) return error;
  error = cuda::launch_blocks<write_parts, 0>(call.N * cut.parts / kCutThreads + 1, kCutThreads, stream, call,
                                              cut, memory.parts);
  if (error != cudaSuccess) return error;

  const RecurrenceCall whole = Memory::call_of_parts(call, cut, memory.parts);
  error = cuda::launch_chunk_operators(whole, memory.kernels, stream);
  if (error != cudaSuccess) return error;

  const States states{.data = memory.states,
                      .slots = whole.N,
                      .slot = std::int64_t{call.HV} * call.K * call.V,
                      .head = std::int64_t{call.K} * call.V,
                      .key = call.V,
                      .value = 1};
  RecurrenceCall summary = whole;
  summary.o = {};
  summary.final_state = states;
  summary.read_slots.data = memory.parts.summary;
  error = cuda::launch_chunk_states(summary, extras, memory.kernels, stream);
  if (error != cudaSuccess) return error;

  const int columns = Memory::columns_of(call);
  const States transitions{.data = memory.P,
                           .slots = whole.N,
                           .slot = std::int64_t{call.HV} * call.K * columns,
                           .head = std::int64_t{call.K} * columns,
                           .key = columns,
                           .value = columns > 1 ? 1 : 0};
  summary.read_slots.data = memory.parts.transition;
  error = cuda::write_identity(memory.zero, memory.identity, columns, stream);
  if (error != cudaSuccess) return error;
  error =
      cuda::launch_chunk_states(recurrence::transition_of(summary, transitions, memory.zero, memory.identity),
                                extras, memory.kernels, stream);
  if (error != cudaSuccess) return error;

  const std::int64_t blocks = call.N * call.HV * ((call.V + cuda::kMergeValues - 1) / cuda::kMergeValues);
  error = cuda::launch_blocks<carry, 0>(blocks, cuda::kMergeThreads, stream, call, cut, states, transitions);
  if (error != cudaSuccess) return error;

  RecurrenceCall parts = whole;
  parts.initial_state = states;
  parts.final_state = call.final_state;
  parts.write_slots = {.data = memory.parts.write, .wide = true};
  return cuda::launch_chunk_states(parts, extras, memory.kernels, stream);
}

}  // namespace fla::intracard_cp
