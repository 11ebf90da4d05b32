#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fla/ops/ops.h"

/// Random calls of the family's ops, for tests, fuzzing and benchmarks. The same specification makes the same
/// bits everywhere.
namespace fla::cases {

/// What the data is like, above all how fast it forgets.
enum class DataKind : std::uint8_t {
  random,         ///< decays of -5 sigmoid(x), as the lower-bound gate makes them
  bound,          ///< every decay at -5
  slow,           ///< -0.01 u: hardly any
  strong,         ///< -125 u: about -1000 over 16 tokens
  resets,         ///< 3 % of the channels at -100, the others slow
  repeated_keys,  ///< all keys of a head equal, beta 1, no decay
  mixed,          ///< one group of 16 channels in four -20 u, the others -0.05 u
};
inline constexpr std::array kAllDataKinds{DataKind::random, DataKind::bound,  DataKind::slow,
                                          DataKind::strong, DataKind::resets, DataKind::repeated_keys,
                                          DataKind::mixed};
std::string_view name_of(DataKind data);
std::optional<DataKind> data_kind_from_name(std::string_view name);

template <RecurrenceArgs Args>
struct CaseSpec {
  std::int64_t B = 1, T = 64, H = 2, HV = 0, K = 64, V = 64;  ///< HV = 0: as many as H
  /// Of packed sequences; then B is 1 and T is their sum. gcc 12 crashes on {} in its place.
  std::vector<std::int64_t> lengths = std::vector<std::int64_t>(0);
  DType dtype = DType::f32;       ///< of q, k, v, a, b
  DType gate_dtype = DType::f32;  ///< of g, g_gamma and beta
  DType state_dtype = DType::f32;
  DType index_dtype = DType::i64;
  DataKind data = DataKind::random;
  bool initial_state = true;
  /// States are in a pool of so many slots, of which sequences have any by state_indices: about one in four
  /// is skipped, and every one for which no slot is left. With write_indices states go to slots that nobody
  /// reads, some of them nowhere, and sequences may share the slot that they read. final_state, where it is
  /// asked for, is given and holds numbers, which slots that are not written keep; it may be exchanged for
  /// initial_state. Without a pool there are no indices.
  std::optional<std::int64_t> pool{};
  bool write_indices = false;
  bool head_gates = false;  ///< g_gamma instead of g, for an op that takes either
  bool fused_projection =
      false;  ///< q, k, v, g, beta, a and b are slices of one row a token where dtypes allow it
  /// Numbers, integers and flags of the call; its tensors are not looked at. g is raw with
  /// use_gate_in_kernel, and beta with use_beta_sigmoid_in_kernel; q and k are normalised already without
  /// use_qk_l2norm_in_kernel, and not negative with normalize. layer_idx and num_layers are 1 and 4 if left
  /// out.
  Args options{.output_final_state = true};
  /// How many checkpoints a sequence may have, of a call whose options have checkpoint_every: memory that
  /// holds 0.125 is given for them.
  std::int64_t checkpoints = 4;
  DType checkpoint_dtype = DType::f32;
  /// Checkpoints go into slots of the pool that nobody else has; about one in four, and every one for which
  /// no slot is left, is not kept. With accepted_tokens about every other sequence starts from one of them.
  bool checkpoint_indices = false, accepted_tokens = false;
  std::uint64_t seed = 1;
};

template <RecurrenceArgs Args>
struct RandomCase {
  Args args;
  std::vector<Tensor> memory;  ///< what the arguments' views point to
};

/// No outputs are given, but for the final_state of a pool and checkpoints: the call makes its own.
template <RecurrenceArgs Args>
RandomCase<Args> make_case(const CaseSpec<Args>& spec);

using KdaSpec = CaseSpec<KdaArgs>;
using KdaCase = RandomCase<KdaArgs>;
inline KdaCase make_kda_case(const KdaSpec& spec) { return make_case(spec); }

}  // namespace fla::cases
