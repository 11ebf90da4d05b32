// Three sequences in one call, over memory that is not fla's: q, k and v are slices of one fused buffer, as a
// projection leaves them, and o and the states go where the program wants them.
#include <fla/fla.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

int main() {
  const std::int64_t H = 2, D = 16, row = 3 * H * D;    // a token's q, k and v
  const std::vector<std::int32_t> starts{0, 5, 5, 12};  // 5 tokens, none, 7
  const std::int64_t T = 16, N = 3;                     // the last 4 tokens are padding

  std::vector<float> qkv(T * row), gates(T * H, -0.1f), beta(T * H, 0.5f), o(T * H * D, 1.0f),
      states(N * H * D * D);
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i));

  // Views own nothing; strides count elements.
  const std::vector<std::int64_t> shape{1, T, H, D}, strides{T * row, row, D, 1};
  const auto slice = [&](std::int64_t part) {
    return fla::TensorView(qkv.data() + part * H * D, fla::DType::f32, shape, strides);
  };
  const fla::GatedDeltaRuleArgs args{.q = slice(0),
                                     .k = slice(1),
                                     .v = slice(2),
                                     .g = {gates.data(), fla::DType::f32, {1, T, H}},
                                     .beta = {beta.data(), fla::DType::f32, {1, T, H}},
                                     .use_qk_l2norm_in_kernel = true,
                                     .cu_seqlens = {starts.data(), fla::DType::i32, {N + 1}},
                                     .out = {o.data(), fla::DType::f32, {1, T, H, D}},
                                     .final_state = {states.data(), fla::DType::f32, {N, H, D, D}}};
  fla::chunk_gated_delta_rule(args);

  // The last sequence alone has the same bits.
  fla::GatedDeltaRuleArgs alone = args;
  for (fla::TensorView* view : {&alone.q, &alone.k, &alone.v, &alone.g, &alone.beta})
    *view = view->slice(1, starts[2], starts[3] - starts[2]);
  alone.cu_seqlens = alone.out = alone.final_state = {};
  const fla::Tensor last = fla::chunk_gated_delta_rule(alone).o;
  const bool same = std::equal(last.as<float>(), last.as<float>() + last.numel(), &o[starts[2] * H * D]);

  for (std::int64_t n = 0; n < N; ++n) {
    const float* state = &states[n * H * D * D];
    const bool zeros = std::all_of(state, state + H * D * D, [](float x) { return x == 0; });
    std::cout << "sequence " << n << ": " << starts[n + 1] - starts[n] << " tokens, its state "
              << (zeros ? "is zeros" : "holds numbers") << "\n";
  }
  std::cout << "the last one alone: " << (same ? "the same bits" : "other bits") << "\n";
  const bool empty = std::all_of(&o[starts[N] * H * D], o.data() + o.size(), [](float x) { return x == 0; });
  std::cout << "o of the padding: " << (empty ? "zeros" : "numbers") << "\n";
}
