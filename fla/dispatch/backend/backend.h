#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "fla/core/environment.h"
#include "fla/core/export.h"
#include "fla/dispatch/backend/verdict.h"

namespace fla {

/// What a backend is. The texts must live as long as the backend: literals.
struct BackendInfo {
  std::string_view name{};     ///< what people and settings call it
  std::string_view package{};  ///< what it is built on: "Highway", "CUTLASS", …
  std::string_view env_var{};  ///< its toggle, such as FLA_CPU_SIMD
  bool default_enable = true;
  int priority = 100;  ///< lower is asked first; ties go by name
  std::string_view doc{};
  /// What it rounds factors of products to: its results are as exact as inputs of that dtype allow, where the
  /// call's own are not coarser.
  DType precision = DType::f32;
  /// Whether under Policy::batch_invariant, which verifiers ask for by fla::batch_invariant(), the calls that
  /// it takes have the bits that this promises. Otherwise it is asked for none then.
  bool batch_invariant = false;
};

/// The original kernels of an op, where they are listed with its backends. They are asked last.
inline constexpr BackendInfo kOriginalKernel{
    .name = "original",
    .package = "C++",
    .priority = std::numeric_limits<int>::max(),
    .doc = "the original kernels: what runs when no backend takes the call",
    .batch_invariant = true};

/// Whether a backend can work on this machine, and why not. Asked once, when the op's backends are loaded,
/// with no lock held: finding out may take calls, threads and processes. Calls meanwhile go to the backends
/// that are there.
struct Availability {
  bool available = true;
  std::string reason;

  static Availability yes() { return {}; }
  static Availability no(std::string why) { return {false, std::move(why)}; }
};

/// A faster implementation of an op's functions. An op declares its own subclass (KdaBackend) with two
/// virtual members a function: `f` and `f_verifier`. A backend overrides what it has: without `f_verifier` it
/// takes every call; without `f` it is skipped for that function, and explain says so. An op may also declare
///
///     virtual std::string route(std::string_view function, const Args& args) const;
///
/// for backends that have several ways to run a call: which of them one that the verifier accepts would go,
/// in words for people. explain shows it; what a verifier must not do it must not do, either, but allocate.
///
/// A backend whose verifier accepts with a value, `accept(value)`, has beside `f` a member
///
///     Result f_accepted(const Args& args, const Verdict& accepted);
///
/// which calls and plans run instead: accepted.carried<Value>() is what the verifier worked out for this
/// call, or for the one that was planned.
///
/// A verifier is pure: const, cheap, deterministic; it reads the arguments' metadata and options and facts
/// about the device, never the tensors' contents, and it copies, launches, logs and caches nothing. It may be
/// called from any thread at any time. Implementations may be called from several threads at once.
class FLA_API BaseBackend {
 public:
  BaseBackend() = default;
  BaseBackend(const BaseBackend&) = delete;
  BaseBackend& operator=(const BaseBackend&) = delete;
  virtual ~BaseBackend();

  virtual BackendInfo info() const = 0;
  virtual Availability is_available() const { return Availability::yes(); }

  /// Reads settings of the backend's own from the environment: when the op's backends are loaded, and again
  /// on reload_environment(). Throws ConfigError, and keeps what was in force, when one is wrong.
  virtual void configure() {}
  /// Those settings, for documents and the command.
  virtual std::span<const Variable> variables() const { return {}; }

 protected:
  /// For functions of an op's class that a backend did not override. Throws BackendError.
  [[noreturn]] static void not_implemented(std::string_view function);
};

namespace dispatch {

/// One function of one backend, its types erased; `run` is cast back by the Function that owns the signature.
struct Slot {
  std::string_view function;
  Verdict (*verify)(const BaseBackend& self, const void* args) = nullptr;  ///< null: accepts every call
  void (*run)() = nullptr;                                                 ///< null: not implemented
  const std::type_info* signature = nullptr;
  std::size_t args_size = 0;
  std::string (*route)(const BaseBackend& self, const void* args) = nullptr;  ///< null: has nothing to say
};

/// Whether `Type` has a member `route` of its own for such arguments, not just its op's class `Base`.
template <class Args, class Owner>
std::type_identity<Owner> owner_of_route(std::string (Owner::*)(std::string_view, const Args&) const);
template <class Base, class Type, class Args>
concept HasRoute = requires {
  requires !std::is_base_of_v<typename decltype(owner_of_route<Args>(&Type::route))::type, Base>;
};

/// The slot of a pair of members of `Type`, called through the functions without state that are given. A
/// member that `Type` did not override is a member of `Base` still, which the type of the pointer to it
/// tells.
template <class Base, class Type, class Owner, class VerifierOwner, class Result, class Args, class Run,
          class Verify, class Route>
Slot make_slot(std::string_view function, Result (Owner::*)(const Args&),
               Verdict (VerifierOwner::*)(const Args&) const, Run, Verify, Route) {
  Slot slot{.function = function, .signature = &typeid(Result(const Args&)), .args_size = sizeof(Args)};
  if constexpr (!std::is_same_v<Owner, Base>) {
    Result (*run)(BaseBackend&, const Args&, const Verdict&) = [](BaseBackend& self, const Args& args,
                                                                  const Verdict& accepted) {
      return Run()(self, args, accepted);
    };
    slot.run = reinterpret_cast<void (*)()>(run);
  }
  if constexpr (!std::is_same_v<VerifierOwner, Base>) {
    slot.verify = [](const BaseBackend& self, const void* args) {
      return Verify()(self, *static_cast<const Args*>(args));
    };
  }
  if constexpr (HasRoute<Base, Type, Args>) {
    slot.route = [](const BaseBackend& self, const void* args) {
      return Route()(static_cast<const Type&>(self), *static_cast<const Args*>(args));
    };
  }
  return slot;
}

}  // namespace dispatch

/// Inside an op's backend class, for each of the op's functions: what a subclass `Type` has of it.
#define FLA_BACKEND_SLOT(Base, Type, function)                                                          \
  ::fla::dispatch::make_slot<Base, Type>(                                                               \
      #function, &Type::function, &Type::function##_verifier,                                           \
      [](::fla::BaseBackend& self, const auto& args, [[maybe_unused]] const ::fla::Verdict& accepted) { \
        if constexpr (requires { static_cast<Type&>(self).function##_accepted(args, accepted); })       \
          return static_cast<Type&>(self).function##_accepted(args, accepted);                          \
        else                                                                                            \
          return static_cast<Type&>(self).function(args);                                               \
      },                                                                                                \
      [](const ::fla::BaseBackend& self, const auto& args) {                                            \
        return static_cast<const Type&>(self).function##_verifier(args);                                \
      },                                                                                                \
      [](const auto& self, const auto& args) { return self.route(#function, args); })

}  // namespace fla
