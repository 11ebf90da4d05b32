#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/choice/accepting_backends.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/recurrence/arguments.h"

/// What every op of the family has: recurrences over a state S of shape [K, V], one a sequence and value
/// head, that decays, takes in a key and a value, and answers a query, token by token. An op's own header has
/// its formula and its arguments.
///
/// Sizes: B batches of T tokens, H key heads, HV value heads (a multiple of H; value head i reads key head
/// i / (HV / H)), K and V channels from 1 to 256, N sequences: B, or with cu_seqlens (then B is 1) the packed
/// sequences [cu_seqlens[i], cu_seqlens[i + 1]), empty ones allowed. The last of them may end before T (a
/// batch padded at its end): see below. Strides are honoured on every axis, so slices of fused projections
/// are legal. All arithmetic is in f32, but for the factors of products in backends that say so
/// (BackendInfo::precision). Gates may be as strong as they like, -inf included. A token's output depends on
/// no later token, whatever that holds, NaN included.
///
/// States are a pool of P slots. Without state_indices P is N and sequence n has slot n. With them sequence n
/// reads slot state_indices[n] of initial_state and writes slot state_write_indices[n] (state_indices[n]
/// without those) of final_state, which the caller gives and which may be initial_state itself. A sequence
/// whose state_indices[n] is negative is skipped: its outputs are zeros and no state is written; one whose
/// state_write_indices[n] alone is negative runs and leaves no state. No slot is written twice, or written
/// for one sequence and read for another, in one call. Slots that are not written keep what they hold.
///
/// With checkpoint_every and checkpoints, sequence n's state after (i + 1) * checkpoint_every of its tokens
/// goes to checkpoints[n, i], i below C. Entries that it does not reach keep what they hold, and so do all of
/// a sequence that is skipped. With checkpoint_indices in the place of checkpoints it goes to slot
/// checkpoint_indices[n, i] of final_state; one that is negative is not kept. state_indices are given as
/// well, and what is said of slots that are written holds for these.
///
/// num_accepted_tokens are for steps of several drafts, each of which leaves its state in a slot
/// (checkpoint_every is 1), until the next step knows how many of them were right: sequence n starts from
/// slot checkpoint_indices[n, num_accepted_tokens[n] - 1], or for 0 from slot state_indices[n]. It may write
/// the slot that it reads. The state after the last token is written again only where state_write_indices say
/// so.
///
/// cu_seqlens and the indices may lie on the host or on the device. On the host they are checked: entries out
/// of order or out of range are errors. On the device they are not read before the kernels run, so that a
/// call neither waits nor breaks a graph capture; kernels stay inside the tensors whatever they hold (bounds
/// are clamped to [0, T], slots outside the pool count as negative, a number of accepted tokens outside of
/// [0, C] skips its sequence), and FLA_CHECK_INDICES=1 reads and checks them first.
///
/// Tokens behind the last sequence belong to none: nothing of them is read. With cu_seqlens on the host their
/// outputs and their gradients are zeros (make_result sees to it); with cu_seqlens on the device nothing is
/// written for them, and memory that the call makes holds anything there.
///
/// Views must outlive the call (on CUDA: the work on the stream, except indices on the host). With `out`,
/// where a state is asked for `final_state`, and on CUDA `workspace` given, a call allocates nothing after
/// the first of its size on a thread; only a state that is updated in place while backends take part in the
/// stages of an original kernel (fla/ops/common/stages.h) is kept apart until the call is done, so that a
/// stage that fails leaves it as it was.
///
/// Backward functions, chunk_<op>_backward, compute the gradients of the chunked function's inputs from the
/// inputs and from the gradients of its outputs, `do` (do_ in C++) and `dht`. The gradient of x is called dx
/// and has x's shape and dtype. If the caller gives memory for some gradients, only those are computed;
/// otherwise all of the call's are. Backward functions take no pools. They are deterministic, and a
/// sequence's gradients do not depend on its batch; those of A_log, dt_bias and g_gamma are sums over the
/// batch. Scaling do and dht by 2^n scales the gradients by exactly 2^n, within f32's range.
///
/// Every op has a summary function as well, named <op>_summary: what the tokens of a call do to a state,
/// whichever it is. The state after a sequence's tokens is P S + R, S the state before them, so that somebody
/// else can go on before S is known: another rank, or another part of the device. R starts with
/// initial_state, whose part of the result it then has; P comes with output_P. With `do` the summary is that
/// of the gradients, which go from the last token to the first: the gradient of the state before the tokens
/// is P dS + R, dS that of the state after them; R starts with dht. This P is the transpose of the other one.
/// A sequence of no tokens has P = 1 and R = 0, or what R starts with. `merge` (fla/ops/merge/merge.h)
/// applies summaries one after another. Both are always f32. normalize is refused: its sums go beyond the
/// state.
///
/// Functions are thread-safe; calls may share inputs. CPU calls return when the result is there, CUDA calls
/// when the work is on args.stream. They throw InvalidArgument before anything runs, BackendError when a
/// backend failed or the required one refused, ConfigError when the environment is wrong, std::bad_alloc when
/// there is not enough memory.
namespace fla {

/// Throws InvalidArgument unless a function of the op could run this call.
template <RecurrenceArgs Args>
void validate_arguments(const Args& args) {
  recurrence::validate(recurrence::arguments_of(args));
}

template <BackwardArgs Args>
void validate_arguments(const Args& args) {
  recurrence::validate(recurrence::backward_arguments_of(args));
}

template <SummaryArgs Args>
void validate_arguments(const Args& args) {
  recurrence::validate(recurrence::summary_arguments_of(args));
}

/// The function that the front door, which is called like the op, gives this call to: the one that works
/// token by token for short sequences, the chunked one for others, and for all under Policy::batch_invariant.
template <RecurrenceArgs Args>
std::string_view front_door(const Args& args) {
  // A chunk pays off once a sequence fills a good part of one; the mean length decides for packed sequences.
  constexpr std::int64_t kShort = 8;
  if (!args.q.defined() || args.q.rank() < 2 || batch_invariant()) return Args::kOp.chunk;
  const std::int64_t sequences =
      args.cu_seqlens.defined() && args.cu_seqlens.rank() == 1 ? args.cu_seqlens.size(0) - 1 : 1;
  return args.q.size(1) <= kShort * sequences ? Args::kOp.recurrent : Args::kOp.chunk;
}

// ---- for authors of backends

/// The sizes of a call, read off validated arguments.
struct RecurrenceSizes {
  std::int64_t B, T, H, HV, K, V, N;
};
template <RecurrenceArgs Args>
RecurrenceSizes sizes_of(const Args& args) {
  return {.B = args.q.size(0),
          .T = args.q.size(1),
          .H = args.q.size(2),
          .HV = args.v.size(2),
          .K = args.q.size(3),
          .V = args.v.size(3),
          .N = args.cu_seqlens.defined() ? args.cu_seqlens.size(0) - 1 : args.q.size(0)};
}

/// Where sequence n's state is read and written, host indices only.
template <RecurrenceArgs Args>
StateSlots slots_of(const Args& args, std::int64_t n) {
  return recurrence::slots_of(recurrence::arguments_of(args), n);
}

/// The tokens of sequence n, host indices only.
template <RecurrenceArgs Args>
Sequence tokens_of(const Args& args, std::int64_t n) {
  return recurrence::tokens_of(recurrence::arguments_of(args), n);
}

/// scale as given, or 1/sqrt(K).
template <RecurrenceArgs Args>
float scale_of(const Args& args) {
  return args.scale ? *args.scale : 1 / std::sqrt(static_cast<float>(args.q.size(3)));
}

/// Where results go: the caller's memory where it was given, new memory otherwise; no state unless it was
/// asked for.
template <RecurrenceArgs Args>
RecurrenceResult make_result(const Args& args) {
  return recurrence::make_result(recurrence::arguments_of(args));
}

template <BackwardArgs Args>
RecurrenceGradients make_result(const Args& args) {
  return recurrence::make_result(recurrence::backward_arguments_of(args));
}

template <SummaryArgs Args>
RecurrenceSummary make_result(const Args& args) {
  return recurrence::make_result(recurrence::summary_arguments_of(args));
}

/// What the backends of every op of the family have; an op's own class adds its functions.
template <RecurrenceArgs OpArgs>
class FLA_API RecurrenceBackend : public BaseBackend {
 public:
  using Args = OpArgs;

  /// Bytes of workspace that a call it takes needs; asked for validated arguments that the verifier accepts.
  virtual std::size_t workspace_size(std::string_view /*function*/, const Args&) const { return 0; }
  virtual std::size_t backward_workspace_size(std::string_view /*function*/,
                                              const typename Args::Backward&) const {
    return 0;
  }
  virtual std::size_t summary_workspace_size(std::string_view /*function*/,
                                             const typename Args::Summary&) const {
    return 0;
  }

  /// Which way it would run such a call; nothing where there is one way.
  virtual std::string route(std::string_view /*function*/, const Args&) const { return ""; }
};

/// The class to subclass to serve an op; override what the backend has.
#define FLA_RECURRENCE_BACKEND(NAME, STRUCT, CHUNK, RECURRENT, REPLAY, FOLD, SUMMARY)                       \
  class FLA_API NAME : public ::fla::RecurrenceBackend<STRUCT##Args> {                                      \
   public:                                                                                                  \
    virtual ::fla::RecurrenceResult CHUNK(const STRUCT##Args&) { not_implemented(#CHUNK); }                 \
    virtual ::fla::Verdict CHUNK##_verifier(const STRUCT##Args&) const { return ::fla::accept(); }          \
    virtual ::fla::RecurrenceResult RECURRENT(const STRUCT##Args&) { not_implemented(#RECURRENT); }         \
    virtual ::fla::Verdict RECURRENT##_verifier(const STRUCT##Args&) const { return ::fla::accept(); }      \
    virtual ::fla::RecurrenceGradients CHUNK##_backward(const STRUCT##BackwardArgs&) {                      \
      not_implemented(#CHUNK "_backward");                                                                  \
    }                                                                                                       \
    virtual ::fla::Verdict CHUNK##_backward_verifier(const STRUCT##BackwardArgs&) const {                   \
      return ::fla::accept();                                                                               \
    }                                                                                                       \
    virtual ::fla::ReplayResult REPLAY(const STRUCT##ReplayArgs&) { not_implemented(#REPLAY); }             \
    virtual ::fla::Verdict REPLAY##_verifier(const STRUCT##ReplayArgs&) const { return ::fla::accept(); }   \
    virtual ::fla::FoldResult FOLD(const STRUCT##FoldArgs&) { not_implemented(#FOLD); }                     \
    virtual ::fla::Verdict FOLD##_verifier(const STRUCT##FoldArgs&) const { return ::fla::accept(); }       \
    virtual ::fla::RecurrenceSummary SUMMARY(const STRUCT##SummaryArgs&) { not_implemented(#SUMMARY); }     \
    virtual ::fla::Verdict SUMMARY##_verifier(const STRUCT##SummaryArgs&) const { return ::fla::accept(); } \
                                                                                                            \
    template <class Type>                                                                                   \
    static ::std::vector<::fla::dispatch::Slot> slots() {                                                   \
      return {FLA_BACKEND_SLOT(NAME, Type, CHUNK),                                                          \
              FLA_BACKEND_SLOT(NAME, Type, RECURRENT),                                                      \
              FLA_BACKEND_SLOT(NAME, Type, CHUNK##_backward),                                               \
              FLA_BACKEND_SLOT(NAME, Type, REPLAY),                                                         \
              FLA_BACKEND_SLOT(NAME, Type, FOLD),                                                           \
              FLA_BACKEND_SLOT(NAME, Type, SUMMARY)};                                                       \
    }                                                                                                       \
  }

/// Bytes of workspace with which no kernel that could take this call, under any settings, allocates: the most
/// that the original kernels of all functions with these arguments and every available backend ask for. 0 on
/// the CPU. Reads metadata only, so that it holds for every call of the same shapes, strides and options.
/// Throws as the op's functions do.
template <class Args>
requires RecurrenceArgs<Args> || BackwardArgs<Args> || SummaryArgs<Args> std::size_t workspace_size(
    const Args& args) {
  validate_arguments(args);
  if (args.q.device().is_cpu()) return 0;
  std::size_t bytes;
  if constexpr (BackwardArgs<Args>) {
    bytes = recurrence::original_workspace(recurrence::backward_arguments_of(args));
  } else if constexpr (SummaryArgs<Args>) {
    bytes = recurrence::original_workspace(recurrence::summary_arguments_of(args));
  } else {
    bytes = recurrence::original_workspace(recurrence::arguments_of(args));
  }
  Args without = args;  // a verifier may refuse a workspace that is too small for it
  without.workspace = {};
  for (const auto& accepting : dispatch::accepting_backends(Args::kOp.name, without)) {
    const auto* backend =
        dynamic_cast<const RecurrenceBackend<typename Args::Forward>*>(accepting.backend.get());
    if (backend == nullptr) continue;  // a lambda: asks for none
    if constexpr (BackwardArgs<Args>) {
      bytes = std::max(bytes, backend->backward_workspace_size(accepting.function, without));
    } else if constexpr (SummaryArgs<Args>) {
      bytes = std::max(bytes, backend->summary_workspace_size(accepting.function, without));
    } else {
      bytes = std::max(bytes, backend->workspace_size(accepting.function, without));
    }
  }
  return bytes;
}

}  // namespace fla
