#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/dispatch/rules/ranges.h"

/// What conditions may ask about a call; not installed.
namespace fla::dispatch {

/// The value of a fact that the call says nothing about: it lies in the range of no comparison.
inline constexpr std::int64_t kAbsent = Ranges::kLeast;

enum class FactType : std::uint8_t { size, number, integer, truth, dtype, device };

/// One dimension of a tensor that measures an axis by itself; null: none does.
struct SizeSource {
  const Argument* argument = nullptr;
  std::int16_t dim = 0;
  std::int16_t plus = 0;  ///< what the shape rule adds

  friend bool operator==(const SizeSource&, const SizeSource&) = default;

  std::int64_t size(const void* args) const noexcept {
    const TensorView& tensor = argument->tensor(args);
    return tensor.defined() ? tensor.size(dim) - plus : kAbsent;
  }
};

/// One thing that can be read off a call's arguments, as a whole number: a size or an integer, 0 or 1, a
/// dtype's or a device's number, a float's place among all floats.
struct Fact {
  enum class Kind : std::uint8_t {
    flag,
    is_defined,  ///< of a tensor
    is_given,    ///< of a number or an integer
    dtype,
    device,
    size,              ///< of `source`
    size_or_else,      ///< of `source`, or of `other` when that tensor is not given
    found_size,        ///< of `axis`, which has to be looked for
    difference,        ///< `source` - `other`
    found_difference,  ///< `axis` - `other_axis`, which have to be looked for
    number,
    integer
  };

  Kind kind{};
  const Argument* argument = nullptr;
  SizeSource source{}, other{};
  Axis axis = Axis::none, other_axis = Axis::none;

  friend bool operator==(const Fact&, const Fact&) = default;

  /// Reads it off the arguments of a call. Never fails, whatever shapes the tensors have.
  std::int64_t value(ArgumentTable table, const void* args) const noexcept;
};

/// A name of a condition, and what it stands for.
struct NamedFact {
  std::string name;
  FactType type{};
  Fact fact;
  std::optional<Fact> alone{};  ///< what the bare name asks; none: it says nothing alone
};

/// Every name that a condition about a function with this table may use.
std::vector<NamedFact> facts_of(ArgumentTable table);

/// `a` - `b`, where both are sizes.
Fact difference_of(const Fact& a, const Fact& b);

/// Where a float stands among all floats: keeps their order, both zeros in one place, nothing for NaN.
std::int64_t place_of(float value);
/// The integer itself; kAbsent, which is below all others, where there is none.
std::int64_t place_of(const std::optional<std::int64_t>& value);

/// A size that no single argument tells; in the order in which validation asks.
std::int64_t find_size(ArgumentTable table, Axis axis, const void* args) noexcept;

}  // namespace fla::dispatch
