#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <typeinfo>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/call/answer.h"
#include "fla/dispatch/call/counting.h"
#include "fla/dispatch/call/function.h"
#include "fla/dispatch/call/snapshot.h"
#include "fla/dispatch/call/trace.h"

/// The decorator. In an op's source file
///
///     DISPATCH("kda", KdaResult, chunk_kda, const KdaArgs& args) { … the original kernel … }
///
/// defines the public function chunk_kda: it validates the arguments, asks the op's backends in ascending
/// priority, gives the call to the first that is available, enabled and whose verifier says yes, and runs the
/// braces otherwise. The op's header declares `chunk_kda` and, in namespace original, `original::chunk_kda`,
/// which validates and runs the braces whatever the settings are. DISPATCH stands in the namespace of both.
///
/// The choice is made on an immutable list that the thread holds; an atomic pointer says whether it is still
/// the one in force. No lock, no allocation, no text on the way, except for a thread's first call after a
/// change.
namespace fla::dispatch {

// The rare ways, out of line.
[[noreturn]] FLA_API void raise_required(const FunctionBase& function, const Snapshot& snapshot,
                                         const void* args);
/// Returns when the call may go on to the next backend; throws otherwise. The exception is handed over
/// because a program and the library need not share one C++ run-time library.
FLA_API void handle_failure(const FunctionBase& function, const Snapshot& snapshot,
                            const Candidate& candidate, Breaker::Trial trial, std::exception_ptr exception);
/// What holds for this call, of a snapshot with rules.
FLA_API const Snapshot& choose_by_rules(const Snapshot& snapshot, const void* args) noexcept;

template <class Result, class Args>
class Function : public FunctionBase {
 public:
  using Original = Result (*)(const Args&);
  using Run = Result (*)(BaseBackend&, const Args&, const Verdict&);

  Function(std::string_view op, std::string_view name, Original kernel)
      : FunctionBase({op, name, &typeid(Result(const Args&)), &typeid(Args), sizeof(Args), table(),
                      validator(), erased(), run_erased()}),
        original_(kernel) {}

  Result operator()(const Args& args) const {
    validate(args);
    const std::uint32_t alone = this->only_original();
    if (alone != 0 && thread_state.scope == nullptr && count_again(alone - 1)) return original_(args);
    const Snapshot* snapshot = nullptr;
    SnapshotHold& hold = this->hold(snapshot);
    return ask_in_turn(*snapshot, &hold, args);
  }

  /// The same under settings that were looked up before, for arguments that are known to be right.
  Result under(const Snapshot& snapshot, const Args& args) const {
    return ask_in_turn(snapshot, nullptr, args);
  }

  Result original(const Args& args) const {
    validate(args);
    const InsideOriginal inside;
    return original_(args);
  }

  Original original_kernel() const { return original_; }

 private:
  static void validate(const Args& args) {
    if constexpr (requires { validate_arguments(args); }) validate_arguments(args);
  }

  [[gnu::noinline]] Result ask_in_turn(const Snapshot& found, SnapshotHold* hold, const Args& args) const {
    SnapshotUse use(found, hold);
    const Snapshot& snapshot = found.decision == nullptr ? found : choose_by_rules(found, &args);
    for (const Candidate* candidate = snapshot.begin; candidate != snapshot.end; ++candidate) {
      const Answer answer = answer_of<Asker::call>(*candidate, snapshot, &args, sizeof(Args));
      if (!answer.takes()) {
        count_answer(*candidate, answer);
        continue;
      }
      count_taken(candidate->counter);
      try {
        if (answer.trial == 0 && !snapshot.traced) [[likely]]
          return reinterpret_cast<Run>(candidate->run)(*candidate->backend, args, answer.verdict);
        return run_watched(snapshot, *candidate, answer, args);
      } catch (...) {
        handle_failure(*this, snapshot, *candidate, answer.trial, std::current_exception());
      }
    }
    if (snapshot.must_take) [[unlikely]]
      raise_required(*this, snapshot, &args);
    count_taken(snapshot.original_counter);
    if (!snapshot.traced) [[likely]] {
      use.end();  // the original kernel is this object's own
      return original_(args);
    }
    const TraceRange range(*this, "original");
    return original_(args);
  }

  /// A call that somebody waits to hear of: a profiler, or the breaker.
  [[gnu::noinline]] Result run_watched(const Snapshot& snapshot, const Candidate& candidate,
                                       const Answer& answer, const Args& args) const {
    std::optional<TraceRange> range;
    if (snapshot.traced) range.emplace(*this, candidate.backend->info().name);
    Result result = reinterpret_cast<Run>(candidate.run)(*candidate.backend, args, answer.verdict);
    if (answer.trial != 0) candidate.breaker->succeeded(answer.trial);
    return result;
  }

  static ArgumentTable table() {
    if constexpr (requires { Args::arguments(); }) return Args::arguments();
    return {};
  }

  static constexpr auto validator() -> void (*)(const void*) {
    if constexpr (requires(const Args& args) { validate_arguments(args); }) {
      return [](const void* args) { validate_arguments(*static_cast<const Args*>(args)); };
    } else {
      return nullptr;
    }
  }

  static constexpr bool kErasable = ErasableArgs<Args> && VisitableResult<Result>;

  static const ErasedArgs* erased() {
    if constexpr (kErasable) return &erased_args<Args>();
    return nullptr;
  }

  static constexpr auto run_erased() -> void (*)(const FunctionBase&, const void*, const ResultVisitor&) {
    if constexpr (kErasable) {
      return [](const FunctionBase& self, const void* args, const ResultVisitor& visitor) {
        Result result = static_cast<const Function&>(self)(*static_cast<const Args*>(args));
        visit_results(result, visitor);
      };
    } else {
      return nullptr;
    }
  }

  Original original_;
};

/// A dispatched function as a part of another's original kernel. Made and ended on the thread of the call: it
/// holds the settings that are in force there, so that all of the call's work runs under the same ones on
/// whatever thread. Inside original::… no backend is consulted. Arguments are not checked: they are parts of
/// a call that was.
template <class Result, class Args>
class Stage {
 public:
  explicit Stage(const Function<Result, Args>& function) : function_(function) {
    if (thread_state.in_original == 0) use_.emplace(function);
  }

  Result operator()(const Args& args) const {
    return use_ ? function_.under(**use_, args) : function_.original_kernel()(args);
  }

  /// Whether a backend may be asked to take a call.
  bool asks() const { return use_ && !(*use_)->only_original; }

 private:
  const Function<Result, Args>& function_;
  std::optional<SnapshotUse> use_;
};

template <class Result, class Args>
Function<Result, Args> function_type(Result (*)(const Args&));
template <class Result, class Args>
Args argument_type(Result (*)(const Args&));

}  // namespace fla::dispatch

#define DISPATCH(OP, RESULT, NAME, ARGS)                                                                 \
  static RESULT NAME##_kernel(ARGS);                                                                     \
  static const decltype(::fla::dispatch::function_type(&NAME##_kernel)) NAME##_function{OP, #NAME,       \
                                                                                        &NAME##_kernel}; \
  RESULT NAME(const decltype(::fla::dispatch::argument_type(&NAME##_kernel))& args) {                    \
    return NAME##_function(args);                                                                        \
  }                                                                                                      \
  RESULT original::NAME(const decltype(::fla::dispatch::argument_type(&NAME##_kernel))& args) {          \
    return NAME##_function.original(args);                                                               \
  }                                                                                                      \
  static RESULT NAME##_kernel(ARGS)
