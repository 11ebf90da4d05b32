#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/choice/named_function.h"

namespace fla {

/// A choice that was made once, to be called many times. A call goes straight to the chosen kernel: no
/// verifier is asked and nothing is checked. So every call's arguments must have what the planned ones had
/// (sizes, dtypes, devices, strides, options, which tensors are there) and be right; only pointers, contents
/// and `scale` may differ. Settings that change later do not change a plan, except that the stages of an
/// original kernel (fla/ops/common/stages.h) are dispatched at each call. A backend that fails is raised,
/// whatever FLA_ON_FAILURE says. Copies are cheap; a plan may be called from several threads at once. A
/// backend that a program took out lives on while a plan has it.
template <class Args>
class Plan {
 public:
  using Result = typename Args::Result;
  using Run = Result (*)(BaseBackend&, const Args&, const Verdict&);
  using Original = Result (*)(const Args&);

  Result operator()(const Args& args) const {
    dispatch::count_taken(counter_);
    if (traced_ == nullptr) [[likely]]
      return run(args);
    const dispatch::TraceRange range(*traced_, name_);
    return run(args);
  }

  /// The chosen backend's name, or "original".
  std::string_view backend() const { return name_; }

 private:
  template <class A>
  friend Plan<A> plan(std::string_view op, std::string_view function, const A& args);

  Result run(const Args& args) const {
    return original_ != nullptr ? original_(args) : run_(*backend_, args, accepted_);
  }

  Original original_ = nullptr;
  Run run_ = nullptr;
  BaseBackend* backend_ = nullptr;
  Verdict accepted_;
  std::shared_ptr<const void> owner_;
  std::uint32_t counter_ = 0;
  std::string_view name_;
  const dispatch::FunctionBase* traced_ = nullptr;  // set where a profiler wants to know who runs
};

namespace dispatch {
/// The function of that name, for these arguments. Throws InvalidArgument.
template <class Args>
const Function<typename Args::Result, Args>& function_for(std::string_view op, std::string_view function,
                                                          const Args& args) {
  return static_cast<const Function<typename Args::Result, Args>&>(
      function_named(op, function, call_type(args)));
}

struct Choice {
  void (*run)();  ///< null: the original kernel
  BaseBackend* backend;
  Verdict accepted;                   ///< the backend's
  std::shared_ptr<const void> owner;  ///< keeps the backend, its name and its counters alive
  std::uint32_t counter;
  std::string_view name;
  bool traced;
};
/// Validates, asks, counts refusals; throws as a call would.
FLA_API Choice choose(const FunctionBase& function, const void* args);
}  // namespace dispatch

/// Chooses for these arguments as a call would, on this thread, now. A function that is called like its op is
/// the op's front door, and the plan is that of the function which it picks now. Throws as a call would, and
/// InvalidArgument for an unknown name.
template <class Args>
Plan<Args> plan(std::string_view op, std::string_view function, const Args& args) {
  const auto& planned = dispatch::function_for(op, function, args);
  dispatch::Choice choice = dispatch::choose(planned, &args);
  Plan<Args> made;
  made.counter_ = choice.counter;
  made.name_ = choice.name;
  made.backend_ = choice.backend;
  made.accepted_ = choice.accepted;
  made.owner_ = std::move(choice.owner);
  if (choice.traced) made.traced_ = &planned;
  if (choice.run != nullptr) {
    made.run_ = reinterpret_cast<typename Plan<Args>::Run>(choice.run);
  } else {
    made.original_ = planned.original_kernel();
  }
  return made;
}

}  // namespace fla
