// A program of somebody else's: it sees the installed tree and nothing else.
#include <fla/fla.h>
#include <fla/ops/kda/kda.h>

#include <iostream>

int main() {
  const fla::Tensor x = fla::Tensor::zeros({1, 3, 2, 8}, fla::DType::f32),
                    beta = fla::Tensor::zeros({1, 3, 2}, fla::DType::f32);
  const auto [o, state] =
      fla::kda({.q = x, .k = x, .v = x, .g = x, .beta = beta, .output_final_state = true});
  std::cout << o.view().describe() << ", state " << state.view().describe() << '\n';
}
