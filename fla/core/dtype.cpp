#include "fla/core/dtype.h"

namespace fla {

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64}) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace fla
