#include "fla/core/dtype.h"

#include <array>

namespace fla {
namespace {
constexpr std::array kTypes{DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64};
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DType type : kTypes) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

std::string to_string(DTypeSet types) {
  std::string text;
  for (const DType type : kTypes) {
    if (types.contains(type)) text += (text.empty() ? "" : " or ") + std::string(name_of(type));
  }
  return text;
}

}  // namespace fla
