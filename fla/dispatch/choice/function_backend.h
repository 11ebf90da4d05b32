#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/catalog/registration.h"

/// Backends without a class: a lambda that serves one function of an op.
namespace fla {
namespace dispatch {

/// What such a backend is; it keeps the texts itself.
class FLA_API FunctionBackendBase : public BaseBackend {
 public:
  explicit FunctionBackendBase(const BackendInfo& info)
      : name_(info.name),
        package_(info.package),
        env_var_(info.env_var),
        doc_(info.doc),
        default_enable_(info.default_enable),
        priority_(info.priority),
        precision_(info.precision),
        batch_invariant_(info.batch_invariant) {}

  BackendInfo info() const override {
    return {.name = name_,
            .package = package_,
            .env_var = env_var_,
            .default_enable = default_enable_,
            .priority = priority_,
            .doc = doc_,
            .precision = precision_,
            .batch_invariant = batch_invariant_};
  }

 private:
  std::string name_, package_, env_var_, doc_;
  bool default_enable_;
  int priority_;
  DType precision_;
  bool batch_invariant_;
};

/// Throws InvalidArgument for an unknown name, ConfigError as add_backend does. Lends the slot the
/// function's name.
FLA_API std::uint64_t add_function_backend(std::string_view name,
                                           std::unique_ptr<FunctionBackendBase> backend, Slot slot);

/// Result(const Args&), read off a function or an object with one operator().
template <class Type>
struct CallOf {};
template <class Type>
requires requires { &Type::operator(); }
struct CallOf<Type> : CallOf<decltype(&Type::operator())> {};
template <class R, class A>
struct CallOf<R (*)(A)> {
  using Result = R;
  using Args = std::remove_cvref_t<A>;
};
template <class R, class A>
struct CallOf<R (*)(A) noexcept> : CallOf<R (*)(A)> {};
template <class R, class C, class A>
struct CallOf<R (C::*)(A)> : CallOf<R (*)(A)> {};
template <class R, class C, class A>
struct CallOf<R (C::*)(A) const> : CallOf<R (*)(A)> {};
template <class R, class C, class A>
struct CallOf<R (C::*)(A) noexcept> : CallOf<R (*)(A)> {};
template <class R, class C, class A>
struct CallOf<R (C::*)(A) const noexcept> : CallOf<R (*)(A)> {};

/// Whether its arguments' type can be read off it: a generic lambda has none of its own.
template <class Type>
concept TypedCallable = requires {
  typename CallOf<Type>::Args;
};

/// A pointer to a function and std::function may be empty; a lambda may not.
template <class Type>
bool is_empty(const Type& callable) {
  if constexpr (std::is_pointer_v<Type> || std::is_null_pointer_v<Type>) {
    return callable == nullptr;
  } else if constexpr (requires { typename Type::result_type; } &&
                       std::is_constructible_v<bool, const Type&>) {
    return !callable;
  } else {
    return false;
  }
}

template <class Verifier, class Implementation>
class FunctionBackend final : public FunctionBackendBase {
 public:
  using Result = typename CallOf<Implementation>::Result;
  using Args = typename CallOf<Implementation>::Args;
  static constexpr bool kVerifies = !std::is_same_v<Verifier, std::nullptr_t>;
  static_assert(std::is_invocable_v<Implementation&, const Args&>,
                "the implementation must take its arguments by const reference");
  static_assert(!kVerifies || std::is_invocable_r_v<Verdict, const Verifier&, const Args&>,
                "the verifier must be const and give a Verdict for the implementation's arguments");

  FunctionBackend(const BackendInfo& info, Verifier verifier, Implementation implementation)
      : FunctionBackendBase(info),
        verifier_(std::move(verifier)),
        implementation_(std::move(implementation)) {}

  /// Without a `run` where the implementation is empty.
  Slot slot() const {
    Slot slot{.function = {}, .signature = &typeid(Result(const Args&)), .args_size = sizeof(Args)};
    if (is_empty(implementation_)) return slot;
    Result (*run)(BaseBackend&, const Args&, const Verdict&) = [](BaseBackend& self, const Args& args,
                                                                  const Verdict&) -> Result {
      return static_cast<FunctionBackend&>(self).implementation_(args);
    };
    slot.run = reinterpret_cast<void (*)()>(run);
    if constexpr (kVerifies) {
      if (is_empty(verifier_)) return slot;
      slot.verify = [](const BaseBackend& self, const void* args) -> Verdict {
        return static_cast<const FunctionBackend&>(self).verifier_(*static_cast<const Args*>(args));
      };
    }
    return slot;
  }

 private:
  Verifier verifier_;
  Implementation implementation_;
};

}  // namespace dispatch

/// Adds a backend to one function of an op while the program runs:
///
///     const auto mine = fla::register_backend(
///         "kda.chunk_kda", {.name = "mine", .priority = 4},
///         [](const fla::KdaArgs& args) { return args.q.size(3) == 64 ? fla::accept() : fla::refuse("…"); },
///         [](const fla::KdaArgs& args) { return my_kernel(args); });
///
/// It is a backend of the op like any other: priority, toggle, policy, explain and counters know its name,
/// which must be free in the op. What serves several functions under one name is a class; see BaseBackend,
/// whose rules for verifiers and implementations hold here too. Texts are copied.
///
/// It leaves when the object goes. No call is lost by that: one that is under way, or that has chosen this
/// backend already, finishes there, and so do plans. The two callables live until the process ends; what they
/// refer to must outlive such calls.
///
/// Throws InvalidArgument for a function that does not exist, ConfigError for other types than the function's
/// or a name that is taken.
template <class Verifier, dispatch::TypedCallable Implementation>
[[nodiscard]] RegisteredBackend register_backend(std::string_view function, const BackendInfo& info,
                                                 Verifier verifier, Implementation implementation) {
  auto backend = std::make_unique<dispatch::FunctionBackend<Verifier, Implementation>>(
      info, std::move(verifier), std::move(implementation));
  const dispatch::Slot slot = backend->slot();
  return RegisteredBackend(dispatch::add_function_backend(function, std::move(backend), slot));
}

/// The same without a verifier, or with nullptr for one: it takes every call.
template <dispatch::TypedCallable Implementation>
[[nodiscard]] RegisteredBackend register_backend(std::string_view function, const BackendInfo& info,
                                                 Implementation implementation) {
  return register_backend(function, info, nullptr, std::move(implementation));
}

}  // namespace fla
