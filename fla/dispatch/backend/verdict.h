#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "fla/core/device.h"
#include "fla/core/dtype.h"
#include "fla/core/export.h"

namespace fla {

/// A value that a refusal is about. Kept as it is; it becomes text only when somebody reads the reason.
class ReasonValue {
 public:
  ReasonValue() = default;  // left as it is: a verdict writes only the values that it has
  template <std::integral T>
  constexpr ReasonValue(T value) : kind_(Kind::integer), integer_(static_cast<std::int64_t>(value)) {}
  constexpr ReasonValue(double value) : kind_(Kind::real), real_(value) {}
  constexpr ReasonValue(DType value) : kind_(Kind::dtype), integer_(static_cast<std::int64_t>(value)) {}
  constexpr ReasonValue(Device value)
      : kind_(Kind::device), integer_(static_cast<std::int64_t>(value.type) << 32 | value.index) {}
  /// The text must live for ever: a literal.
  constexpr ReasonValue(const char* value) : kind_(Kind::text), text_(value) {}

  FLA_API std::string text() const;
  FLA_API friend bool operator==(const ReasonValue& a, const ReasonValue& b);

 private:
  enum class Kind : std::uint8_t { integer, real, dtype, device, text };
  Kind kind_;
  union {
    std::int64_t integer_;
    double real_;
    const char* text_;
  };
};

/// A reason's wording with the place that raised it; "{}" stands for the values, in their order.
struct ReasonText {
  const char* text;
  const char* file;
  unsigned line;

  constexpr ReasonText(const char* wording, const char* at_file = __builtin_FILE(),
                       unsigned at_line = __builtin_LINE())
      : text(wording), file(at_file), line(at_line) {}
};

/// A verifier's answer: yes, or no with a reason. A yes may carry a small value to the run of the call, so
/// that what the verifier worked out need not be worked out again. Making one never allocates.
class [[nodiscard]] Verdict {
 public:
  static constexpr std::size_t kMaxValues = 3;
  static constexpr std::size_t kMaxCarried = kMaxValues * sizeof(ReasonValue);  ///< bytes

  Verdict() : text_(nullptr), count_(0) {}
  template <class... Values>
  explicit Verdict(ReasonText reason, Values... values)
      : text_(reason.text),
        file_(reason.file),
        line_(reason.line),
        failed_(false),
        count_(sizeof...(Values)),
        values_{ReasonValue(values)...} {
    static_assert(sizeof...(Values) <= kMaxValues);
  }

  /// The answer of a verifier that threw `message`, which must live for ever.
  static Verdict failure(const char* message) {
    Verdict verdict(ReasonText("verifier failed: {}", "", 0), message);
    verdict.failed_ = true;
    return verdict;
  }

  /// A yes that carries a value.
  template <class Value>
  static Verdict carrying(const Value& value) {
    // Without padding: verdicts are compared by their bytes.
    static_assert(std::has_unique_object_representations_v<Value> && sizeof(Value) <= kMaxCarried);
    Verdict verdict;
    verdict.count_ = sizeof(Value);
    std::memcpy(verdict.carried_, &value, sizeof(Value));
    return verdict;
  }
  /// What a yes carries, when that is a Value; values are told apart by their sizes.
  template <class Value>
  std::optional<Value> carried() const {
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= kMaxCarried);
    if (!ok() || count_ != sizeof(Value)) return std::nullopt;
    Value value{};
    std::memcpy(&value, carried_, sizeof(Value));
    return value;
  }

  bool ok() const { return text_ == nullptr; }
  explicit operator bool() const { return ok(); }
  /// Whether there is no answer because the verifier failed; not ok, either.
  bool failed() const { return !ok() && failed_; }

  /// Of a refusal: the wording, unformatted, which refusals are counted by, and the place that raised it.
  const char* text() const { return text_; }
  const char* file() const { return file_; }
  unsigned line() const { return line_; }
  std::span<const ReasonValue> values() const { return {values_, ok() ? 0u : count_}; }

  /// The reason as a sentence; empty when accepted. Allocates.
  FLA_API std::string reason() const;
  FLA_API friend bool operator==(const Verdict& a, const Verdict& b);

 private:
  const char* text_;  // null: accepted; only count_ and what is carried are set then
  const char* file_;
  unsigned line_;
  bool failed_;
  std::uint8_t count_;  // of the values, or the bytes that are carried
  union {
    ReasonValue values_[kMaxValues];
    std::byte carried_[kMaxCarried];
  };
};

inline Verdict accept() { return Verdict(); }
/// accept(route): the run of the call gets the value, see BaseBackend.
template <class Value>
Verdict accept(const Value& value) {
  return Verdict::carrying(value);
}

/// refuse("requires K=128, got {}", K): the caller's place is remembered.
template <class... Values>
Verdict refuse(ReasonText reason, Values... values) {
  return Verdict(reason, values...);
}

}  // namespace fla

/// In a verifier, a check with its reason: FLA_REFUSE_IF(K != 128, "requires K=128, got {}", K);
#define FLA_REFUSE_IF(condition, ...)                 \
  do {                                                \
    if (condition) return ::fla::refuse(__VA_ARGS__); \
  } while (false)
/// … and a part that has a verdict of its own: FLA_VERIFY(verify_sizes(args));
#define FLA_VERIFY(part)                                                                  \
  do {                                                                                    \
    if (const ::fla::Verdict fla_verdict = (part); !fla_verdict.ok()) return fla_verdict; \
  } while (false)
