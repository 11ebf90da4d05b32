#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/ops/short_conv/short_conv.h"
#include "tests/ops/common/random_tensor.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/layer_reference.h"

namespace fla_test {

/// What a random call of short_conv is like. `lengths`: of packed sequences; `slots`: the indices of their
/// states in a pool of `pool` slots; `unused`: tokens behind the last sequence.
struct ConvSpec {
  std::int64_t B = 1, T = 7, D = 70, W = 4;
  fla::DType dtype = fla::DType::f32, state_dtype = fla::DType::f32;
  bool bias = true, silu = true, initial_state = true;
  std::vector<std::int64_t> lengths{};
  std::vector<std::int64_t> slots{}, write_slots{};
  std::int64_t pool = 0, unused = 0;

  std::string text() const {
    return "B=" + std::to_string(B) + " T=" + std::to_string(T) + " D=" + std::to_string(D) +
           " W=" + std::to_string(W) + " " + std::string(name_of(dtype)) + " " +
           std::to_string(lengths.size()) + " lengths, " + std::to_string(slots.size()) + " slots";
  }
};

inline fla::Tensor index_tensor(const std::vector<std::int64_t>& entries,
                                fla::DType dtype = fla::DType::i64) {
  fla::Tensor tensor = fla::Tensor::empty({static_cast<std::int64_t>(entries.size())}, dtype);
  for (std::size_t i = 0; i < entries.size(); ++i)
    fla::cases::store(tensor, static_cast<std::int64_t>(i), static_cast<double>(entries[i]));
  return tensor;
}

/// A random call and its memory; the outputs are filled with 7. With slots the pool is updated in place.
struct ConvCall {
  explicit ConvCall(const ConvSpec& spec) {
    std::vector<std::int64_t> starts{0};
    for (const std::int64_t length : spec.lengths) starts.push_back(starts.back() + length);
    const bool packed = !spec.lengths.empty();
    const std::int64_t B = packed ? 1 : spec.B, T = packed ? starts.back() + spec.unused : spec.T;
    const std::int64_t P = spec.pool > 0 ? spec.pool
                           : packed      ? static_cast<std::int64_t>(spec.lengths.size())
                                         : B;
    x = random_tensor({B, T, spec.D}, spec.dtype, 1);
    weight = random_tensor({spec.D, spec.W}, spec.dtype, 2);
    bias = random_tensor({spec.D}, spec.dtype, 3);
    initial_state = random_tensor({P, spec.D, spec.W - 1}, spec.state_dtype, 4);
    out = fla::Tensor::empty({B, T, spec.D}, spec.dtype);
    for (std::int64_t i = 0; i < out.numel(); ++i) fla::cases::store(out, i, 7);
    args.x = x, args.weight = weight, args.use_silu = spec.silu;
    if (spec.bias) args.bias = bias;
    if (spec.initial_state) args.initial_state = initial_state;
    if (packed) args.cu_seqlens = cu_seqlens = index_tensor(starts);
    if (!spec.slots.empty()) {
      args.state_indices = state_indices = index_tensor(spec.slots, fla::DType::i32);
      args.final_state = initial_state;
      if (!spec.write_slots.empty())
        args.state_write_indices = state_write_indices = index_tensor(spec.write_slots);
    }
    args.output_final_state = spec.slots.empty();
    args.out = out;
  }

  fla::Tensor x, weight, bias, initial_state, cu_seqlens, state_indices, state_write_indices, out;
  fla::ShortConvArgs args;
};

inline void expect_agrees(const fla::ShortConvResult& result, const fla::cases::ShortConvReference& reference,
                          double tolerance, const std::string& what) {
  EXPECT_LE(fla::cases::relative_error(result.o, reference.o), tolerance) << what;
  if (!result.final_state.defined()) return;
  EXPECT_LE(fla::cases::relative_error(result.final_state, reference.final_state), tolerance) << what;
}

/// Widths, dtypes, a step, packed and empty sequences, pools in place, sizes that fill no vector.
inline std::vector<ConvSpec> conv_specs() {
  using fla::DType;
  std::vector<ConvSpec> specs;
  for (const std::int64_t W : {2, 3, 4}) {
    specs.push_back({.B = 2, .T = 37, .D = 70, .W = W});
    specs.push_back({.B = 3, .T = 1, .D = 64, .W = W, .bias = false});
    specs.push_back({.B = 1, .T = 2, .D = 5, .W = W, .silu = false});
    specs.push_back({.D = 132,
                     .W = W,
                     .dtype = DType::bf16,
                     .state_dtype = DType::bf16,
                     .lengths = {5, 0, 33, 1, 2, 3, 0, 17}});
    specs.push_back(
        {.D = 33, .W = W, .dtype = DType::f16, .lengths = {1, 20, 0, 4}, .slots = {5, 0, 2, -1}, .pool = 7});
    specs.push_back({.D = 12,
                     .W = W,
                     .lengths = {3, 18, 2},
                     .slots = {1, 4, 0},
                     .write_slots = {3, -1, 2},
                     .pool = 5,
                     .unused = 6});
    specs.push_back({.T = 40, .D = 8, .W = W, .initial_state = false});
  }
  return specs;
}

}  // namespace fla_test
