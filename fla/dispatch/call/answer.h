#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include "fla/core/export.h"
#include "fla/dispatch/backend/verdict.h"
#include "fla/dispatch/call/counting.h"
#include "fla/dispatch/call/snapshot.h"
#include "fla/dispatch/failure/breaker.h"

namespace fla::dispatch {

// The rare ways, out of line.
FLA_API Verdict verifier_failed(std::exception_ptr exception);
FLA_API Verdict ask_twice(const Candidate& candidate, const void* args, std::size_t size);

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

}  // namespace fla::dispatch
