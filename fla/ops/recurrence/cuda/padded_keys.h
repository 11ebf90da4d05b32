#pragma once

#include <type_traits>

namespace fla::cuda {

template <int value>
using Constant = std::integral_constant<int, value>;

/// body(Constant<KP>), KP the size that kernels pad K to.
template <class Body>
auto with_padded_keys(int K, Body&& body) {
  if (K <= 32) return body(Constant<32>{});
  if (K <= 64) return body(Constant<64>{});
  if (K <= 128) return body(Constant<128>{});
  return body(Constant<256>{});
}

}  // namespace fla::cuda
