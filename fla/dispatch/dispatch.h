#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/dispatch/backend.h"
#include "fla/dispatch/breaker.h"
#include "fla/dispatch/counters.h"
#include "fla/dispatch/policy.h"
#include "fla/dispatch/trace.h"
#include "fla/dispatch/verdict.h"

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

/// One backend that a call may go to: available, enabled, allowed.
struct Candidate {
  Verdict (*verify)(const BaseBackend&, const void*);
  void (*run)();
  BaseBackend* backend;
  Breaker* breaker;
  std::uint32_t counter;
};

class Decision;

/// Who is asked for one function under one policy, in order. Immutable; it lives as long as somebody uses it,
/// and keeps its backends alive.
struct Snapshot {
  const Candidate* begin = nullptr;
  const Candidate* end = nullptr;
  const Decision* decision = nullptr;        ///< the config file's rules for this function; null: none
  const Snapshot* const* by_rule = nullptr;  ///< what holds when a rule does, in the rules' order
  std::uint32_t original_counter = 0;
  bool only_original = true;     ///< no candidate, no trace
  bool must_take = false;        ///< FLA_BACKEND_REQUIRE: the original kernel is no answer
  bool fall_back = false;        ///< FLA_ON_FAILURE=fallback, and no backend is required
  bool check_verifiers = false;  ///< FLA_CHECK_VERIFIERS=1
  bool traced = false;           ///< a profiler wants to know who runs
  BreakerSettings breaker;
  std::string required;      ///< the backend that must take the call
  std::string required_out;  ///< why it cannot take any, when it cannot
};

/// A thread's hold on a snapshot: it lives, and stays the one that is held, while `uses` is not 0. Only the
/// thread itself looks at it.
struct SnapshotHold {
  /// What `uses` of a hold that was made for one use comes down to when that ends.
  static constexpr std::uint32_t kEnded = std::uint32_t{1} << 31;

  const Snapshot* snapshot = nullptr;
  std::uint32_t uses = 0;
};

/// What the dispatch keeps for a thread.
struct ThreadState {
  ScopedPolicy::Frame* scope = nullptr;
  CounterCell* cells = nullptr;
  SnapshotHold* holds = nullptr;  ///< by function, of the calls outside a ScopedPolicy
  std::uint32_t cell_count = 0;
  std::uint32_t hold_count = 0;
  std::uint32_t in_original = 0;  ///< how deep the thread is inside original::… functions
};
// Of the compiler's own TLS model: static TLS would keep the library from being loaded while a program runs,
// as Python does, since the CUDA runtime in it needs more than is set aside for that.
extern FLA_API constinit thread_local ThreadState thread_state;

/// An entry point, its types erased: what the registry, explain and plans know of it.
class FLA_API FunctionBase {
 public:
  /// What an entry point is, apart from its types.
  struct Description {
    std::string_view op, name;
    const std::type_info* signature;
    const std::type_info* args_type;
    std::size_t args_size;
    ArgumentTable arguments;
    void (*validate)(const void* args);
  };

  explicit FunctionBase(const Description& description);
  FunctionBase(const FunctionBase&) = delete;
  FunctionBase& operator=(const FunctionBase&) = delete;

  std::string_view op() const { return description_.op; }
  std::string_view name() const { return description_.name; }
  const Description& description() const { return description_; }

  /// The list that is in force for the calling thread now, with one use more of the hold on it.
  SnapshotHold& hold(const Snapshot*& snapshot) const {
    // The pointer is compared, and followed only when the thread holds it: what it holds it has got before,
    // and nothing else can lie there meanwhile. It is not read from the hold, which would come later.
    snapshot = snapshot_.load(std::memory_order_acquire);
    ThreadState& thread = thread_state;
    if (thread.scope == nullptr && index_ < thread.hold_count) [[likely]] {
      SnapshotHold& held = thread.holds[index_];
      if (held.snapshot == snapshot) [[likely]] {
        ++held.uses;
        return held;
      }
    }
    SnapshotHold& found = find_hold();
    snapshot = found.snapshot;
    return found;
  }

 protected:
  /// The original kernel's counter, and 1, when outside a ScopedPolicy there is neither candidate nor trace.
  std::uint32_t only_original() const { return only_original_.load(std::memory_order_relaxed); }

 private:
  friend class Registry;
  SnapshotHold& find_hold() const;

  Description description_;
  std::uint32_t index_;  ///< of ThreadState::holds
  mutable std::atomic<std::uint32_t> only_original_{0};
  mutable std::atomic<const Snapshot*> snapshot_{nullptr};  ///< null: has to be looked for
};

/// Ends a hold that was made for one use.
FLA_API void end_hold(SnapshotHold& hold) noexcept;

/// The list that is in force for the calling thread now, for as long as this object lives, on its thread.
class SnapshotUse {
 public:
  explicit SnapshotUse(const FunctionBase& function) : hold_(&function.hold(snapshot_)) {}
  /// Takes a hold's use over; null: somebody else has it.
  SnapshotUse(const Snapshot& snapshot, SnapshotHold* hold) : snapshot_(&snapshot), hold_(hold) {}
  SnapshotUse(SnapshotUse&& other) noexcept
      : snapshot_(other.snapshot_), hold_(std::exchange(other.hold_, nullptr)) {}
  SnapshotUse& operator=(SnapshotUse&&) = delete;
  ~SnapshotUse() { end(); }

  /// Before its time: the list is not looked at any more.
  void end() {
    if (hold_ != nullptr && --hold_->uses == SnapshotHold::kEnded) [[unlikely]]
      end_hold(*hold_);
    hold_ = nullptr;
  }

  const Snapshot& operator*() const { return *snapshot_; }
  const Snapshot* operator->() const { return snapshot_; }

 private:
  const Snapshot* snapshot_ = nullptr;
  SnapshotHold* hold_;
};

// The rare ways, out of line. The first time a thread counts something it is logged, once a process.
FLA_API void count_first(std::uint32_t counter);
FLA_API void count_refusal_first(const Candidate& candidate, const Verdict& verdict);
FLA_API void count_failure(const Candidate& candidate, bool fell_back);
FLA_API Verdict verifier_failed(std::exception_ptr exception);
FLA_API Verdict ask_twice(const Candidate& candidate, const void* args, std::size_t size);
[[noreturn]] FLA_API void raise_required(const FunctionBase& function, const Snapshot& snapshot,
                                         const void* args);
/// Returns when the call may go on to the next backend; throws otherwise. The exception is handed over
/// because a program and the library need not share one C++ run-time library.
FLA_API void handle_failure(const FunctionBase& function, const Snapshot& snapshot,
                            const Candidate& candidate, Breaker::Trial trial, std::exception_ptr exception);
/// What holds for this call, of a snapshot with rules.
FLA_API const Snapshot& choose_by_rules(const Snapshot& snapshot, const void* args) noexcept;

/// Counts a call that a thread has counted before; counts nothing and says no the first time.
inline bool count_again(std::uint32_t counter) {
  ThreadState& thread = thread_state;
  if (counter >= thread.cell_count) return false;
  CounterCell::Count& taken = thread.cells[counter].taken;
  const std::uint64_t before = taken.load(std::memory_order_relaxed);
  if (before == 0) return false;
  taken.store(before + 1, std::memory_order_relaxed);
  return true;
}

inline void count_taken(std::uint32_t counter) {
  if (!count_again(counter)) [[unlikely]]
    count_first(counter);
}

inline void count_refusal(const Candidate& candidate, const Verdict& verdict) {
  ThreadState& thread = thread_state;
  if (candidate.counter < thread.cell_count) [[likely]] {
    for (CounterCell::Reason& reason : thread.cells[candidate.counter].reasons) {
      const char* text = reason.text.load(std::memory_order_relaxed);
      if (text == verdict.text() && reason.line.load(std::memory_order_relaxed) == verdict.line()) {
        return CounterCell::increment(reason.count);
      }
      if (text == nullptr) break;
    }
  }
  count_refusal_first(candidate, verdict);
}

inline Verdict ask(const Candidate& candidate, const void* args) {
  if (candidate.verify == nullptr) return accept();
  try {
    return candidate.verify(*candidate.backend, args);
  } catch (...) {
    return verifier_failed(std::current_exception());
  }
}

/// What a candidate makes of a call.
struct Answer {
  enum class Kind : std::uint8_t { takes, refuses, breaker_open };

  Verdict verdict;
  Kind kind = Kind::takes;
  Breaker::Trial trial = 0;  ///< of a call that tries whether the backend works again

  bool takes() const { return kind == Kind::takes; }
};

/// Who asks. Only a call that will run may begin a trial of a breaker.
enum class Asker : std::uint8_t { call, observer };

/// The one rule of dispatch, for calls, plans and explain: a call goes to the first candidate that takes it,
/// else to the original kernel. A candidate takes a call that its verifier accepts and, where failures fall
/// back, its breaker lets in.
template <Asker asker>
[[gnu::always_inline]] inline Answer answer_of(const Candidate& candidate, const Snapshot& snapshot,
                                               const void* args, std::size_t args_size) {
  Answer answer{snapshot.check_verifiers ? ask_twice(candidate, args, args_size) : ask(candidate, args)};
  if (!answer.verdict.ok()) {
    answer.kind = Answer::Kind::refuses;
  } else if (snapshot.fall_back && !candidate.breaker->closed()) [[unlikely]] {
    if constexpr (asker == Asker::call) answer.trial = candidate.breaker->admits_trial();
    const bool let_in = asker == Asker::call ? answer.trial != 0 : candidate.breaker->admits();
    if (!let_in) answer.kind = Answer::Kind::breaker_open;
  }
  return answer;
}

/// Counts an answer of a candidate that does not take the call.
inline void count_answer(const Candidate& candidate, const Answer& answer) {
  if (answer.kind == Answer::Kind::refuses) [[likely]]
    return count_refusal(candidate, answer.verdict);
  count_open(candidate);
}

template <class Result, class Args>
class Function : public FunctionBase {
 public:
  using Original = Result (*)(const Args&);
  using Run = Result (*)(BaseBackend&, const Args&, const Verdict&);

  Function(std::string_view op, std::string_view name, Original kernel)
      : FunctionBase(
            {op, name, &typeid(Result(const Args&)), &typeid(Args), sizeof(Args), table(), validator()}),
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
    struct Inside {
      Inside() { ++thread_state.in_original; }
      ~Inside() { --thread_state.in_original; }
    } const inside;
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
