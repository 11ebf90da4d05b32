#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fla/core/export.h"

namespace fla {

enum class DType : std::uint8_t { bf16, f16, f32, i32, i64 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::bf16:
    case DType::f16: return 2;
    case DType::f32:
    case DType::i32: return 4;
    case DType::i64: return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::f32: return "f32";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
  }
  return "?";
}

/// The dtype called `name` ("bf16", "f16", "f32", "i32", "i64"), or nothing.
FLA_API std::optional<DType> dtype_from_name(std::string_view name);

/// A set of dtypes, for argument tables and messages.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  template <class... Types>
  constexpr explicit DTypeSet(Types... types) : bits_((bit(types) | ... | 0u)) {}

  constexpr bool contains(DType type) const { return (bits_ & bit(type)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  static constexpr unsigned bit(DType type) { return 1u << static_cast<unsigned>(type); }
  unsigned bits_ = 0;
};

/// "bf16 or f16 or f32"
FLA_API std::string to_string(DTypeSet types);

inline constexpr DTypeSet kFloatTypes{DType::bf16, DType::f16, DType::f32};
inline constexpr DTypeSet kStateTypes{DType::f32, DType::bf16};
inline constexpr DTypeSet kIndexTypes{DType::i32, DType::i64};
inline constexpr DTypeSet kRingTypes{DType::f32};

}  // namespace fla
