#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/catalog/plugin_record.h"

namespace fla {

namespace dispatch {

/// A backend of an op, to be made when the op's backends are loaded. One that throws while it is made stays
/// in the list as unavailable, with what it said.
struct Recipe {
  std::string_view op;
  std::string_view name;
  std::unique_ptr<BaseBackend> (*make)();
  std::vector<Slot> (*slots)();
};

struct FLA_API Registration {
  explicit Registration(const Recipe& recipe);
};

FLA_API std::uint64_t add_backend(std::string_view op, std::unique_ptr<BaseBackend> backend,
                                  std::vector<Slot> slots);
FLA_API void remove_backend(std::uint64_t id);

/// Grows whenever backends or settings change: lookups between which it did not grow are consistent.
FLA_API std::uint64_t generation();

}  // namespace dispatch

/// A backend that a program added itself; it leaves when this object goes. Calls that are under way there
/// finish. The backend itself is destroyed, on whatever thread and with no lock of the library held, when
/// it is no longer in use: plans that chose it are gone, and every thread that called one of its
/// functions has called that function again, or has ended. A forked child has it, too: like a listener
/// (fla/core/subscription.h), it must not refer to the stacks of other threads there.
class RegisteredBackend {
 public:
  explicit RegisteredBackend(std::uint64_t id) : id_(id) {}
  RegisteredBackend(RegisteredBackend&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  RegisteredBackend& operator=(RegisteredBackend&&) = delete;
  ~RegisteredBackend() {
    if (id_ != 0) dispatch::remove_backend(id_);
  }

 private:
  std::uint64_t id_;
};

/// Adds a backend to an op while the program runs. Throws ConfigError when the op does not exist or has a
/// backend of that name, or when that is `original`, the name of the op's own kernel.
template <class Type>
[[nodiscard]] RegisteredBackend register_backend(std::string_view op, std::unique_ptr<Type> backend) {
  return RegisteredBackend(dispatch::add_backend(op, std::move(backend), Type::template slots<Type>()));
}

}  // namespace fla

/// In a backend's source file, once an op: FLA_REGISTER_BACKEND(kda, cpu_simd, CpuSimdKda). The record is
/// what a library with the backend in it says of itself before it is loaded; see
/// fla/dispatch/plugins/plugin.h.
// clang-format off
#define FLA_REGISTER_BACKEND(OP, NAME, TYPE)                                                                  \
  static_assert(::std::string_view(#NAME) != "original", "`original` is the op's own kernel: choose another name"); \
  FLA_PLUGIN_RECORD(fla_record_##OP##_##NAME, ::fla::dispatch::PluginRecord::op, #OP, #NAME,                  \
                    ::fla::dispatch::detail::args_size_of<TYPE>());                                           \
  static const ::fla::dispatch::Registration fla_registration_##OP##_##NAME{                                  \
      {#OP, #NAME, []() -> ::std::unique_ptr<::fla::BaseBackend> { return ::std::make_unique<TYPE>(); },      \
       [] { return TYPE::slots<TYPE>(); }}}
// clang-format on
