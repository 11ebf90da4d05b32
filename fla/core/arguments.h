#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fla/core/export.h"
#include "fla/core/tensor.h"

/// An op's arguments are described once, in a list next to its struct (see fla/ops/kda/kda.h). The list makes
/// the struct's members and the table below; validation, the command, explain, the documents and the fuzzer
/// read the table.
namespace fla {

/// The sizes that shapes are made of: batch, tokens, key heads, value heads, key and value channels,
/// sequences, slots of a pool of states, C: tokens of a chunk, or checkpoints of a sequence, D channels of a
/// convolution and W tokens that it reaches over, L tokens of a ring.
///
/// N is what an index of shape "N+1" says, or B where none is given. P is what the first tensor that has it
/// says where an index of shape "N" or "N C" is given, which then names slots for every sequence; otherwise
/// every sequence has its own and P is N.
enum class Axis : std::uint8_t { B, T, H, HV, K, V, N, P, C, D, W, L, none };
inline constexpr int kAxes = 12;
inline constexpr std::array<std::string_view, kAxes> kAxisNames{"B", "T", "H", "HV", "K", "V",
                                                                "N", "P", "C", "D",  "W", "L"};

/// What each axis measures in one call; -1 where no argument says.
class AxisSizes {
 public:
  constexpr AxisSizes() { sizes_.fill(-1); }
  constexpr std::int64_t operator[](Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  constexpr std::int64_t& operator[](Axis axis) { return sizes_[static_cast<std::size_t>(axis)]; }

 private:
  std::array<std::int64_t, kAxes> sizes_{};
};

/// One dimension of a shape rule: `axis`, `axis * times` or `axis + plus`.
struct DimRule {
  Axis axis = Axis::none;
  Axis times = Axis::none;
  int plus = 0;

  constexpr std::int64_t in(const AxisSizes& sizes) const {
    return sizes[axis] * (times == Axis::none ? 1 : sizes[times]) + plus;
  }
};

/// A shape such as "B T H K", "HV*K", "N+1" or "P D W-1".
struct ShapeRule {
  std::array<DimRule, TensorView::kMaxRank> dims{};
  int rank = 0;
  std::string_view text;

  constexpr ShapeRule() = default;
  constexpr explicit ShapeRule(std::string_view rule) : text(rule) {
    while (!rule.empty()) {
      const std::size_t end = rule.find(' ');
      dims[static_cast<std::size_t>(rank++)] = dim(rule.substr(0, end));
      rule = end == std::string_view::npos ? std::string_view() : rule.substr(end + 1);
    }
  }

 private:
  static constexpr Axis axis_named(std::string_view name) {
    for (std::size_t i = 0; i < kAxisNames.size(); ++i) {
      if (kAxisNames[i] == name) return static_cast<Axis>(i);
    }
    throw "a shape rule names an axis that does not exist";
  }
  static constexpr DimRule dim(std::string_view word) {
    if (const auto star = word.find('*'); star != std::string_view::npos) {
      return {axis_named(word.substr(0, star)), axis_named(word.substr(star + 1)), 0};
    }
    for (const int plus : {1, -1}) {
      if (word.ends_with(plus > 0 ? "+1" : "-1"))
        return {axis_named(word.substr(0, word.size() - 2)), Axis::none, plus};
    }
    return {axis_named(word), Axis::none, 0};
  }
};

/// The shapes that an argument may have: one ("B T H K"), either of two ("HV*K | HV K"), or one that another
/// takes the place of when a flag is set ("N HV K V; state_v_first: N HV V K").
struct ShapeRules {
  ShapeRule first, second;
  std::string_view flag;
  std::string_view text;

  constexpr ShapeRules() = default;
  constexpr ShapeRules(const char* rules)
      : text(rules) {  // NOLINT(google-explicit-constructor): tables read better
    if (const auto bar = text.find(" | "); bar != std::string_view::npos) {
      first = ShapeRule(text.substr(0, bar));
      second = ShapeRule(text.substr(bar + 3));
    } else if (const auto semicolon = text.find("; "); semicolon != std::string_view::npos) {
      const auto colon = text.find(": ");
      first = ShapeRule(text.substr(0, semicolon));
      flag = text.substr(semicolon + 2, colon - semicolon - 2);
      second = ShapeRule(text.substr(colon + 2));
    } else {
      first = ShapeRule(text);
    }
  }
};

/// tensor: read by the kernel, on the call's device. index: integers that may also lie on the host. output:
/// memory that the caller gives for a result. number: a float that may be left out. integer: likewise. flag:
/// off unless set.
enum class ArgumentKind : std::uint8_t { tensor, index, output, number, integer, flag };

/// either: of all arguments of a table that are so, a call gives one.
enum class Need : std::uint8_t { required, optional, either };

struct Argument {
  std::string_view name;
  ArgumentKind kind;
  Need need = Need::optional;
  DTypeSet dtypes;
  ShapeRules shape;
  std::string_view in_place_of;  ///< of an output: the argument that it may be the same memory as
  std::string_view doc;
  const void* (*member)(const void* args);
  std::string_view needs{};  ///< the argument without which this one must not be given

  bool is_tensor() const { return kind <= ArgumentKind::output; }
  /// Whether it is an index with entries for every sequence: slots of the pool of states, or which of them.
  bool names_slots() const {
    const DimRule& dim = shape.first.dims[0];
    return kind == ArgumentKind::index && dim.axis == Axis::N && dim.times == Axis::none && dim.plus == 0;
  }
  const TensorView& tensor(const void* args) const { return *static_cast<const TensorView*>(member(args)); }
  const std::optional<float>& number(const void* args) const {
    return *static_cast<const std::optional<float>*>(member(args));
  }
  const std::optional<std::int64_t>& integer(const void* args) const {
    return *static_cast<const std::optional<std::int64_t>*>(member(args));
  }
  bool flag(const void* args) const { return *static_cast<const bool*>(member(args)); }

  /// Whether the call has it: a tensor, a number or an integer that is there, a flag that is set.
  bool given(const void* args) const {
    if (is_tensor()) return tensor(args).defined();
    if (kind == ArgumentKind::number) return number(args).has_value();
    return kind == ArgumentKind::integer ? integer(args).has_value() : flag(args);
  }

  TensorView& tensor(void* args) const {
    return const_cast<TensorView&>(tensor(static_cast<const void*>(args)));
  }
  std::optional<float>& number(void* args) const {
    return const_cast<std::optional<float>&>(number(static_cast<const void*>(args)));
  }
  std::optional<std::int64_t>& integer(void* args) const {
    return const_cast<std::optional<std::int64_t>&>(integer(static_cast<const void*>(args)));
  }
  bool& flag(void* args) const { return *static_cast<bool*>(const_cast<void*>(member(args))); }
};

using ArgumentTable = std::span<const Argument>;

/// The argument of that name, or null.
FLA_API const Argument* find_argument(ArgumentTable table, std::string_view name);

/// The shape rule that holds for this argument in this call (flags decide; of two alternatives, the one whose
/// rank the given tensor has).
FLA_API const ShapeRule& rule_in_force(ArgumentTable table, const Argument& argument, const void* args);

/// Whether a function returns what it writes into this output. One that needs an option is not returned: it
/// is written where the caller gives memory. Nor is one that must be given.
FLA_API bool is_result(ArgumentTable table, const Argument& argument);

/// Everything about a call that its table can tell: required and needed arguments are there, dtypes, devices,
/// ranks and sizes agree, memory is not null, numbers are finite, outputs overlap nothing. Returns the sizes.
/// Throws InvalidArgument. Does not allocate when the call is right.
FLA_API AxisSizes check_arguments(ArgumentTable table, const void* args);

/// Whether two tensors may share an element. Slices that are interleaved along one common stride do not.
FLA_API bool may_overlap(const TensorView& a, const TensorView& b);

namespace detail {
template <auto Member>
struct MemberOf;
template <class Struct, class Type, Type Struct::*Member>
struct MemberOf<Member> {
  static const void* get(const void* args) { return &(static_cast<const Struct*>(args)->*Member); }
};

/// A member named like a C++ keyword ends with an underscore (do_); its name in tables does not.
constexpr std::string_view name_in_tables(std::string_view member) {
  if (member.ends_with('_')) member.remove_suffix(1);
  return member;
}

/// The name as it is; that of no member does not compile.
template <auto Member>
constexpr std::string_view name_of_member(std::string_view name) {
  return name;
}
}  // namespace detail

// What a line of an op's list becomes in the struct …
#define FLA_MEMBER_TENSOR(name, need, types, shape, doc, ...) ::fla::TensorView name{};
#define FLA_MEMBER_INDEX(name, need, types, shape, doc, ...) ::fla::TensorView name{};
#define FLA_MEMBER_OUTPUT(name, types, shape, in_place_of, doc, ...) ::fla::TensorView name{};
#define FLA_MEMBER_NUMBER(name, doc, ...) ::std::optional<float> name{};
#define FLA_MEMBER_INTEGER(name, doc, ...) ::std::optional<::std::int64_t> name{};
#define FLA_MEMBER_FLAG(name, doc, ...) bool name = false;

// … and in the table; TableStruct is the struct that the table is being made for. A last entry of a line is
// the name of the argument that it needs.
#define FLA_ROW(name, kind, need, types, shape, in_place_of, doc, ...) \
  ::fla::Argument{::fla::detail::name_in_tables(#name),                \
                  ::fla::ArgumentKind::kind,                           \
                  ::fla::Need::need,                                   \
                  types,                                               \
                  shape,                                               \
                  in_place_of,                                         \
                  doc,                                                 \
                  &::fla::detail::MemberOf<&TableStruct::name>::get,   \
                  __VA_OPT__(::fla::detail::name_of_member<&TableStruct::__VA_ARGS__>(#__VA_ARGS__))},
#define FLA_ROW_TENSOR(name, need, types, shape, doc, ...) \
  FLA_ROW(name, tensor, need, types, shape, "", doc, __VA_ARGS__)
#define FLA_ROW_INDEX(name, need, types, shape, doc, ...) \
  FLA_ROW(name, index, need, types, shape, "", doc, __VA_ARGS__)
#define FLA_ROW_OUTPUT(name, types, shape, in_place_of, doc, ...) \
  FLA_ROW(name, output, optional, types, shape, in_place_of, doc, __VA_ARGS__)
#define FLA_ROW_NUMBER(name, doc, ...) \
  FLA_ROW(name, number, optional, ::fla::DTypeSet{}, ::fla::ShapeRules{}, "", doc, __VA_ARGS__)
#define FLA_ROW_INTEGER(name, doc, ...) \
  FLA_ROW(name, integer, optional, ::fla::DTypeSet{}, ::fla::ShapeRules{}, "", doc, __VA_ARGS__)
#define FLA_ROW_FLAG(name, doc, ...) \
  FLA_ROW(name, flag, optional, ::fla::DTypeSet{}, ::fla::ShapeRules{}, "", doc, __VA_ARGS__)

/// In an op's argument struct: the members of its list.
#define FLA_ARGUMENT_MEMBERS(LIST)                                                                    \
  LIST(FLA_MEMBER_TENSOR, FLA_MEMBER_INDEX, FLA_MEMBER_OUTPUT, FLA_MEMBER_NUMBER, FLA_MEMBER_INTEGER, \
       FLA_MEMBER_FLAG)

/// In a function that returns an ArgumentTable: the table of that struct and its list, or of rows.
#define FLA_RETURN_ARGUMENT_TABLE(STRUCT, LIST)                                                \
  FLA_RETURN_TABLE(STRUCT, LIST(FLA_ROW_TENSOR, FLA_ROW_INDEX, FLA_ROW_OUTPUT, FLA_ROW_NUMBER, \
                                FLA_ROW_INTEGER, FLA_ROW_FLAG))
#define FLA_RETURN_TABLE(STRUCT, ...)                \
  using TableStruct = STRUCT;                        \
  static constexpr ::std::array kTable{__VA_ARGS__}; \
  return kTable

}  // namespace fla
