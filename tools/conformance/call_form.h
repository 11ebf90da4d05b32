#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"

namespace fla::conformance {

/// How one argument of a call is given.
struct Choice {
  enum class Lies : std::uint8_t { row_major, padded, anyhow };

  bool given = false;  ///< of a flag: set
  DType dtype = DType::f32;
  Lies lies = Lies::row_major;
  bool second_shape = false;  ///< of an argument that may have either of two
  bool in_place = false;      ///< of an output: in the memory that its argument says
  float number = 0;           ///< of an integer as well

  friend bool operator==(const Choice&, const Choice&) = default;
};

/// What a call is like, its contents apart: a choice for every argument of its table, and its sizes. N and P
/// follow from the indices that are given.
class CallForm {
 public:
  /// Required arguments are there, in f32 or the first dtype that they may have; nothing else is.
  explicit CallForm(ArgumentTable table);

  ArgumentTable table() const { return table_; }
  Choice& operator[](std::string_view argument);
  const Choice& operator[](std::string_view argument) const;
  std::int64_t& operator[](Axis axis) { return sizes_[axis]; }

  /// Whether an index says where packed sequences begin, and whether one names slots.
  bool is_packed() const;
  bool is_pooled() const;

  /// All sizes, N and P included. A packed call has B = 1.
  AxisSizes sizes() const;

  friend bool operator==(const CallForm& a, const CallForm& b);

 private:
  ArgumentTable table_;
  AxisSizes sizes_;
  std::vector<Choice> choices_;
};

/// An argument that means something, or is allowed, only where another one is given, or is not, beside what
/// the table says of it.
struct Requirement {
  std::string_view argument;
  bool given;
  std::string_view other;
  bool other_given;
};

/// One argument, or one size, as it might be instead.
struct Variation {
  std::string name;   ///< the argument's, or the axis's
  std::string value;  ///< "bf16", "set", "left out", "0.5", "in place", …
  std::function<void(CallForm&)> apply;

  std::string text() const { return name + ": " + value; }
};

/// Gives an argument or takes it away, and does what that needs.
void give(CallForm& form, std::string_view argument, bool given, std::span<const Requirement> needs);

/// Sets a number, an integer or a flag of a call's arguments as chosen.
void set_option(const Argument& argument, const Choice& choice, void* args);

/// Every variation of every argument of the table: given and left out, each dtype, each kind of strides, each
/// shape, in place; `numbers` says which values a number or an integer may have, `sizes` which an axis may.
std::vector<Variation> variations(ArgumentTable table, std::span<const Requirement> needs,
                                  const std::function<std::vector<float>(const Argument&)>& numbers,
                                  const std::function<std::vector<std::int64_t>(Axis)>& sizes);

}  // namespace fla::conformance
