#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fla/core/tensor.h"

namespace fla::cases {

/// Calls body(offset in elements) for every element of a view, in row-major order.
template <class Body>
void for_each_offset(const TensorView& view, Body&& body) {
  if (view.numel() == 0) return;
  const int last = view.rank() - 1;
  const std::int64_t count = last < 0 ? 1 : view.size(last), step = last < 0 ? 0 : view.stride(last);
  std::array<std::int64_t, TensorView::kMaxRank> index{};
  for (std::int64_t row = 0;;) {
    for (std::int64_t i = 0; i < count; ++i) body(row + i * step);
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      std::int64_t& at = index[static_cast<std::size_t>(axis)];
      row += view.stride(axis);
      if (++at < view.size(axis)) break;
      row -= at * view.stride(axis);
      at = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace fla::cases
