#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/dispatch/backend.h"

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
/// slices of fused projections are legal. All arithmetic is in f32. Gates may be as strong as they like, -inf
/// included.
namespace fla {

struct KdaResult {
  Tensor o;            ///< [B, T, HV, V], dtype of v
  Tensor final_state;  ///< [N, HV, K, V] (or as state_v_first says); empty unless it was asked for
};

// One line an argument: the struct below, validation, the command, the documents and the fuzzer are made from
// it.
//     tensors: name, need, dtypes, shape, documentation        outputs: name, dtypes, shape, in place of,
//     documentation
#define FLA_KDA_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, FLAG)                                            \
  TENSOR(q, required, kFloatTypes, "B T H K", "queries")                                                  \
  TENSOR(k, required, kFloatTypes, "B T H K", "keys")                                                     \
  TENSOR(v, required, kFloatTypes, "B T HV V", "values")                                                  \
  TENSOR(g, required, kFloatTypes, "B T HV K", "log-decay of every channel; raw with use_gate_in_kernel") \
  TENSOR(beta, required, kFloatTypes, "B T HV",                                                           \
         "how far a key is rewritten; raw with use_beta_sigmoid_in_kernel")                               \
  NUMBER(scale, "factor of the output; 1/sqrt(K) when left out")                                          \
  TENSOR(initial_state, optional, kStateTypes, "N HV K V; state_v_first: N HV V K",                       \
         "the state to start from")                                                                       \
  FLAG(output_final_state, "return the state after the last token")                                       \
  FLAG(use_qk_l2norm_in_kernel, "normalise q and k: x * rsqrt(sum(x^2) + 1e-6)")                          \
  FLAG(use_gate_in_kernel, "g is -exp(A_log) * softplus(g + dt_bias), or as lower_bound says")            \
  FLAG(use_beta_sigmoid_in_kernel, "beta is sigmoid(beta)")                                               \
  FLAG(allow_neg_eigval, "with use_beta_sigmoid_in_kernel: beta is doubled")                              \
  FLAG(safe_gate, "the gate is bounded from below: lower_bound must be in [-5, 0)")                       \
  NUMBER(lower_bound, "with use_gate_in_kernel: g is lower_bound * sigmoid(exp(A_log) * (g + dt_bias))")  \
  FLAG(state_v_first, "states are [V, K] instead of [K, V]")                                              \
  INDEX(cu_seqlens, optional, kIndexTypes, "N+1", "where packed sequences begin; the last entry is T")    \
  TENSOR(A_log, optional, kFloatTypes, "HV",                                                              \
         "logarithm of the gate's rate; with lower_bound it may be left out")                             \
  TENSOR(dt_bias, optional, kFloatTypes, "HV*K | HV K", "added to g before the gate")                     \
  OUTPUT(out, kFloatTypes, "B T HV V", "", "memory for o, dtype of v")                                    \
  OUTPUT(final_state, kStateTypes, "N HV K V; state_v_first: N HV V K", "initial_state",                  \
         "memory for the final state, which is then returned; may be initial_state itself")

/// The arguments of every kda function, under the names that flash-linear-attention gives them:
///
///     auto [o, state] = fla::kda({.q = q, .k = k, .v = v, .g = g, .beta = beta, .output_final_state =
///     true});
///
/// Views are borrowed for the call. With `out` and, where a state is asked for, `final_state` given, a call
/// allocates nothing after the first of its size on a thread; only a state that is updated in place while
/// backends take part in the stages of an original kernel (fla/ops/common/stages.h) is kept apart until the
/// call is done, so that a stage that fails leaves it as it was.
struct KdaArgs {
  using Result = KdaResult;

  FLA_ARGUMENT_MEMBERS(FLA_KDA_ARGUMENTS)
  Stream stream{};  ///< for CUDA tensors; CPU kernels run on the calling thread and return when done

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_kda, others to chunk_kda. CPU calls return when the
/// result is there. Thread-safe; calls may share inputs. Throws InvalidArgument before anything runs,
/// BackendError when a backend failed or the required one refused, ConfigError when the environment is wrong.
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

/// Throws InvalidArgument unless a kda function could run this call.
FLA_API void validate_arguments(const KdaArgs& args);

// ---- for authors of backends

/// The sizes of a call, read off validated arguments.
struct KdaSizes {
  std::int64_t B, T, H, HV, K, V, N;
};
FLA_API KdaSizes sizes_of(const KdaArgs& args);

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

  template <class Type>
  static std::vector<dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(KdaBackend, Type, chunk_kda),
            FLA_BACKEND_SLOT(KdaBackend, Type, fused_recurrent_kda)};
  }
};

}  // namespace fla
