#include "fla/dispatch/choice/plan.h"

#include "fla/dispatch/choice/snapshots.h"

namespace fla::dispatch {

Choice choose(const FunctionBase& function, const void* args) {
  function.check(args);
  const SnapshotUse use(function);
  const Snapshot& snapshot = use->decision == nullptr ? *use : choose_by_rules(*use, args);
  for (const Candidate* candidate = snapshot.begin; candidate != snapshot.end; ++candidate) {
    const Answer answer =
        answer_of<Asker::observer>(*candidate, snapshot, args, function.description().args_size);
    if (answer.takes()) {
      return {candidate->run,     candidate->backend,
              answer.verdict,     owner_of(snapshot, *candidate),
              candidate->counter, candidate->backend->info().name,
              snapshot.traced};
    }
    count_answer(*candidate, answer);
  }
  if (snapshot.must_take) raise_required(function, snapshot, args);
  return {nullptr,        nullptr, accept(), nullptr, snapshot.original_counter, kOriginalKernel.name,
          snapshot.traced};
}

}  // namespace fla::dispatch
