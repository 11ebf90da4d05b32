#pragma once

#include <array>
#include <string>
#include <string_view>
#include <type_traits>

#include "fla/core/errors.h"
#include "fla/ops/ops.h"

/// From an op's name to its types, and from its types to its functions: for what is written once for the
/// whole family.
namespace fla::cases {

/// The public functions of the op with these arguments.
template <RecurrenceArgs Args>
struct Functions;

#define FLA_OP(NAME, ARGS)                                                                                   \
  template <>                                                                                                \
  struct Functions<ARGS> {                                                                                   \
    static constexpr auto original_chunk = &fla::original::chunk_##NAME,                                     \
                          original_recurrent = &fla::original::fused_recurrent_##NAME;                       \
    static constexpr auto backward = &fla::chunk_##NAME##_backward,                                          \
                          original_backward = &fla::original::chunk_##NAME##_backward;                       \
    static constexpr auto replay = &fla::replay_##NAME, original_replay = &fla::original::replay_##NAME;     \
    static constexpr auto fold = &fla::fold_##NAME, original_fold = &fla::original::fold_##NAME;             \
    static constexpr auto summary = &fla::NAME##_summary, original_summary = &fla::original::NAME##_summary; \
    static constexpr auto door = &fla::NAME, chunk = &fla::chunk_##NAME,                                     \
                          recurrent = &fla::fused_recurrent_##NAME;                                          \
    static auto called(std::string_view function) {                                                          \
      return function == ARGS::kOp.chunk ? chunk : function == ARGS::kOp.recurrent ? recurrent : door;       \
    }                                                                                                        \
  };
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

/// The names of the family's ops.
inline constexpr auto kOpNames = std::to_array<std::string_view>({
#define FLA_OP(NAME, ARGS) #NAME,
    FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
});

/// body(std::type_identity<Args>), Args the arguments of the family's op of that name. Throws
/// InvalidArgument, naming those that there are.
template <class Body>
decltype(auto) with_op(std::string_view name, Body&& body) {
#define FLA_OP(NAME, ARGS) \
  if (name == #NAME) return body(std::type_identity<ARGS>{});
  FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
  std::string names;
  for (const std::string_view each : kOpNames) names += (names.empty() ? "" : ", ") + std::string(each);
  throw InvalidArgument("op", "expected one of " + names + ", got '" + std::string(name) + "'");
}

}  // namespace fla::cases
