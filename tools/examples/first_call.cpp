#include <fla/fla.h>

#include <cmath>
#include <iostream>

// Something to attend to: T tokens, 4 heads, 64 channels.
fla::Tensor waves(std::initializer_list<std::int64_t> shape, float scale, float offset) {
  fla::Tensor tensor = fla::Tensor::empty(shape, fla::DType::f32);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.as<float>()[i] = offset + scale * std::sin(static_cast<float>(i));
  }
  return tensor;
}

int main() {
  const std::int64_t T = 100;
  const fla::Tensor q = waves({1, T, 4, 64}, 1, 0), k = waves({1, T, 4, 64}, 1, 0.1f),
                    v = waves({1, T, 4, 64}, 1, 0);
  const fla::Tensor g = waves({1, T, 4, 64}, 0.1f, -0.2f), beta = waves({1, T, 4}, 0.3f, 0.5f);

  const fla::KdaArgs args{.q = q,
                          .k = k,
                          .v = v,
                          .g = g,
                          .beta = beta,
                          .output_final_state = true,
                          .use_qk_l2norm_in_kernel = true};
  const auto [o, state] = fla::kda(args);
  std::cout << "o " << o.view().describe() << ", state " << state.view().describe() << "\n";
  std::cout << fla::explain("kda", "kda", args).text();  // who took it, and why not the others
}
