#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/dispatch/rules/ranges.h"

/// The conditions of the config file's rules; not installed.
///
///     condition   := alternative { "or" alternative }
///     alternative := part { "and" part }
///     part        := "not" part | "(" condition ")" | comparison
///     comparison  := operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=") operand ]
///                  | name ["not"] "in" "[" constant { "," constant } "]"
///     operand     := name | constant
///     constant    := number | 'text' | "text" | true | false
///
/// What names stand for is said by the table of the op's arguments:
///
///     dtype, device            of the first required tensor: 'bf16', …; 'cpu', 'cuda'
///     B T H HV K V …           sizes, as the table's shapes name them; N: the number of sequences
///     varlen                   sequences are packed: the index of their starts is given
///     a flag's name            whether it is set
///     a number's or integer's  its value; alone: whether it is given
///     an optional tensor's     whether it is given
///
/// A size may be compared with another size. A comparison with something that was left out does not hold, and
/// `x != y` is always `not x == y`.
namespace fla::dispatch {

struct ConditionNode;

/// A condition that was read. Cheap to copy; immutable.
class FLA_API Condition {
 public:
  Condition(std::string text, std::shared_ptr<const ConditionNode> root)
      : text_(std::move(text)), root_(std::move(root)) {}

  const std::string& text() const { return text_; }
  const ConditionNode& root() const { return *root_; }

 private:
  std::string text_;
  std::shared_ptr<const ConditionNode> root_;
};

/// What is wrong with a condition, and the byte of its text where it begins.
class FLA_API ConditionError : public std::runtime_error {
 public:
  ConditionError(std::size_t offset, const std::string& what) : std::runtime_error(what), offset_(offset) {}

  std::size_t offset() const { return offset_; }

 private:
  std::size_t offset_;
};

/// Reads a condition; what its names mean is not looked at. Throws ConditionError.
FLA_API Condition parse_condition(std::string_view text);

/// Throws ConditionError for names that this table does not know, comparisons that make no sense, and
/// conditions of too many comparisons.
FLA_API void check_condition(const Condition& condition, ArgumentTable table);

/// The rules of one function as a walk over their comparisons, from the first rule to the last. Each
/// comparison names the next one for both outcomes.
class FLA_API Decision {
 public:
  /// A null condition always holds. One that check_condition refuses for this table never holds: the rule is
  /// about other functions of the op. Tables must outlive the decision.
  Decision(std::span<const Condition* const> rules, ArgumentTable table);
  ~Decision();
  Decision(const Decision&) = delete;
  Decision& operator=(const Decision&) = delete;

  /// The index of the first rule whose condition holds for the call, or -1. Allocates nothing.
  int first(const void* args) const noexcept;

 private:
  struct Source;
  struct Step;
  static constexpr int kNoRule = -1;  // where the walk ends when no rule holds; rule i: kNoRule - 1 - i

  std::int64_t value_of(const Source& source, const void* args) const noexcept;

  ArgumentTable table_;
  std::vector<Source> sources_;
  std::vector<Step> steps_;
  std::vector<Ranges::Range> ranges_;
  int start_ = kNoRule;
};

// ---- what a condition is made of

struct ConditionConstant {
  enum class Kind : std::uint8_t { whole, real, text, truth };
  Kind kind = Kind::whole;
  std::int64_t whole = 0;
  double real = 0;  ///< of a whole number, too
  std::string text;
  bool truth = false;
  std::size_t offset = 0;
  std::string written;  ///< as it stands in the condition
};

struct ConditionNode {
  enum class Kind : std::uint8_t { all, any, negation, comparison };
  /// bare: the name alone. among: one of `constants`.
  enum class Relation : std::uint8_t { bare, equal, unequal, less, at_most, greater, at_least, among };

  Kind kind = Kind::comparison;
  std::size_t offset = 0;
  std::vector<std::shared_ptr<const ConditionNode>> children;  ///< of all, any and negation

  Relation relation = Relation::bare;
  std::size_t relation_offset = 0;
  std::string relation_written;
  std::string name;
  std::vector<ConditionConstant> constants;  ///< what the name is compared with: one, or those of a list …
  std::string other;                         ///< … or another name
  std::size_t other_offset = 0;
};

}  // namespace fla::dispatch
