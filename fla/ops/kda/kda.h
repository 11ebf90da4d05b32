#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/core/workspace.h"
#include "fla/dispatch/backend/backend.h"

/// Kimi Delta Attention: the delta rule with a gate for every channel. Per sequence and value head, with a
/// state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- diag(exp(g_t)) S
///     S <- S + k_t (beta_t (v_t - k_t^T S))^T
///     o_t = scale * q_t^T S
///
/// Sizes: B batches of T tokens, H key heads, HV value heads (a multiple of H; value head i reads key head
/// i / (HV / H)), K and V channels from 1 to 256, N sequences: B, or with cu_seqlens (then B is 1) the packed
/// sequences [cu_seqlens[i], cu_seqlens[i + 1]), empty ones allowed. Strides are honoured on every axis, so
/// slices of fused projections are legal. All arithmetic is in f32, but for the factors of products in
/// backends that say so (BackendInfo::precision). Gates may be as strong as they like, -inf included. A
/// token's output depends on no later token, whatever that holds, NaN included.
///
/// States are a pool of P slots. Without state_indices P is N and sequence n has slot n. With them sequence n
/// reads slot state_indices[n] of initial_state and writes slot state_write_indices[n] (state_indices[n]
/// without those) of final_state, which the caller gives and which may be initial_state itself. A sequence
/// whose state_indices[n] is negative is skipped: its outputs are zeros and no state is written; one whose
/// state_write_indices[n] alone is negative runs and leaves no state. No slot is written twice, or written
/// for one sequence and read for another, in one call. Slots that are not written keep what they hold.
///
/// cu_seqlens and the indices may lie on the host or on the device. On the host they are checked: entries out
/// of order or out of range are errors. On the device they are not read before the kernels run, so that a
/// call neither waits nor breaks a graph capture; kernels stay inside the tensors whatever they hold (bounds
/// are clamped to [0, T], slots outside the pool count as negative), and FLA_CHECK_INDICES=1 reads and checks
/// them first.
namespace fla {

struct KdaResult {
  Tensor o;            ///< [B, T, HV, V], dtype of v
  Tensor final_state;  ///< [P, HV, K, V] (or as state_v_first says); empty unless it was asked for
};

// One line an argument: the struct below, validation, the command, the documents and the fuzzer are made from
// it.
//     tensors: name, need, dtypes, shape, documentation
//     outputs: name, dtypes, shape, in place of, documentation
// and last, where there is one, the argument that must be given with it.
#define FLA_KDA_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, FLAG)                                              \
  TENSOR(q, required, kFloatTypes, "B T H K", "queries")                                                    \
  TENSOR(k, required, kFloatTypes, "B T H K", "keys")                                                       \
  TENSOR(v, required, kFloatTypes, "B T HV V", "values")                                                    \
  TENSOR(g, required, kFloatTypes, "B T HV K", "log-decay of every channel; raw with use_gate_in_kernel")   \
  TENSOR(beta, required, kFloatTypes, "B T HV",                                                             \
         "how far a key is rewritten; raw with use_beta_sigmoid_in_kernel")                                 \
  NUMBER(scale, "factor of the output; 1/sqrt(K) when left out")                                            \
  TENSOR(initial_state, optional, kStateTypes, "P HV K V; state_v_first: P HV V K",                         \
         "the state to start from")                                                                         \
  FLAG(output_final_state, "return the state after the last token")                                         \
  FLAG(use_qk_l2norm_in_kernel, "normalise q and k: x * rsqrt(sum(x^2) + 1e-6)")                            \
  FLAG(use_gate_in_kernel, "g is -exp(A_log) * softplus(g + dt_bias), or as lower_bound says")              \
  FLAG(use_beta_sigmoid_in_kernel, "beta is sigmoid(beta)")                                                 \
  FLAG(allow_neg_eigval, "beta is doubled", use_beta_sigmoid_in_kernel)                                     \
  FLAG(safe_gate, "with use_gate_in_kernel: lower_bound must be in [-5, 0)")                                \
  NUMBER(lower_bound, "with use_gate_in_kernel: g is lower_bound * sigmoid(exp(A_log) * (g + dt_bias))")    \
  FLAG(state_v_first, "states are [V, K] instead of [K, V]")                                                \
  INDEX(cu_seqlens, optional, kIndexTypes, "N+1", "where packed sequences begin; the last entry is T")      \
  INDEX(state_indices, optional, kIndexTypes, "N",                                                          \
        "the slot of the states' pool that a sequence reads; negative: the sequence is skipped")            \
  INDEX(state_write_indices, optional, kIndexTypes, "N",                                                    \
        "the slot that a sequence writes, state_indices if left out; negative: not written", state_indices) \
  TENSOR(A_log, optional, kFloatTypes, "HV",                                                                \
         "logarithm of the gate's rate; with lower_bound it may be left out")                               \
  TENSOR(dt_bias, optional, kFloatTypes, "HV*K | HV K", "added to g before the gate")                       \
  OUTPUT(out, kFloatTypes, "B T HV V", "", "memory for o, dtype of v")                                      \
  OUTPUT(final_state, kStateTypes, "P HV K V; state_v_first: P HV V K", "initial_state",                    \
         "memory for the final state, which is then returned; may be initial_state itself")

/// The arguments of every kda function, under the names that flash-linear-attention gives them:
///
///     auto [o, state] = fla::kda({.q = q, .k = k, .v = v, .g = g, .beta = beta, .output_final_state =
///     true});
///
/// Views must outlive the call (on CUDA: the work on the stream, except indices on the host). With
/// `out`, where a state is asked for `final_state`, and on CUDA `workspace` given, a call allocates nothing
/// after the first of its size on a thread; only a state that is updated in place while backends take part in
/// the stages of an original kernel (fla/ops/common/stages.h) is kept apart until the call is done, so that a
/// stage that fails leaves it as it was.
struct KdaArgs {
  using Result = KdaResult;

  FLA_ARGUMENT_MEMBERS(FLA_KDA_ARGUMENTS)
  Stream stream{};        ///< for CUDA tensors; CPU kernels run on the calling thread and return when done
  Workspace workspace{};  ///< for CUDA tensors, of workspace_size() bytes; without it the call allocates

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_kda, others to chunk_kda. CPU calls return when the
/// result is there, CUDA calls when the work is on args.stream. Thread-safe; calls may share inputs. Throws
/// InvalidArgument before anything runs, BackendError when a backend failed or the required one refused,
/// ConfigError when the environment is wrong, std::bad_alloc when there is not enough memory.
FLA_API KdaResult kda(const KdaArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API KdaResult chunk_kda(const KdaArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API KdaResult fused_recurrent_kda(const KdaArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API KdaResult chunk_kda(const KdaArgs& args);
FLA_API KdaResult fused_recurrent_kda(const KdaArgs& args);
}  // namespace original

/// The function that kda() gives this call to.
FLA_API std::string_view front_door(const KdaArgs& args);

/// Bytes of workspace with which no kernel that could take this call, under any settings, allocates: the most
/// that the original kernels of both functions and every available backend ask for. 0 on the CPU. Reads
/// metadata only, so that it holds for every call of the same shapes, strides and options. Throws as kda()
/// does.
FLA_API std::size_t workspace_size(const KdaArgs& args);

/// Throws InvalidArgument unless a kda function could run this call.
FLA_API void validate_arguments(const KdaArgs& args);

// ---- for authors of backends

/// The sizes of a call, read off validated arguments.
struct KdaSizes {
  std::int64_t B, T, H, HV, K, V, N;
};
FLA_API KdaSizes sizes_of(const KdaArgs& args);

/// Where sequence n's state is read and written, host indices only; read < 0: the sequence is skipped, write
/// < 0: no state is written.
struct StateSlots {
  std::int64_t read, write;
};
FLA_API StateSlots slots_of(const KdaArgs& args, std::int64_t n);

/// The half-open range of tokens of sequence n, and the batch that they lie in.
struct TokenRange {
  std::int64_t batch, begin, end;
};
FLA_API TokenRange tokens_of(const KdaArgs& args, std::int64_t n);

/// scale as given, or 1/sqrt(K).
FLA_API float scale_of(const KdaArgs& args);

/// Where results go: the caller's memory where it was given, new memory otherwise; no state unless it was
/// asked for.
FLA_API KdaResult make_result(const KdaArgs& args);

/// Subclass this to serve kda; override what the backend has.
class FLA_API KdaBackend : public BaseBackend {
 public:
  using Args = KdaArgs;

  virtual KdaResult chunk_kda(const KdaArgs& args);
  virtual Verdict chunk_kda_verifier(const KdaArgs& args) const;
  virtual KdaResult fused_recurrent_kda(const KdaArgs& args);
  virtual Verdict fused_recurrent_kda_verifier(const KdaArgs& args) const;

  /// Bytes of workspace that a call it takes needs; asked for validated arguments that the verifier accepts.
  virtual std::size_t workspace_size(std::string_view function, const KdaArgs& args) const;

  /// Which way it would run such a call; nothing where there is one way.
  virtual std::string route(std::string_view function, const KdaArgs& args) const;

  template <class Type>
  static std::vector<dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(KdaBackend, Type, chunk_kda),
            FLA_BACKEND_SLOT(KdaBackend, Type, fused_recurrent_kda)};
  }
};

}  // namespace fla
