#include "tools/conformance/kda_specs.h"

#include <array>

namespace fla::conformance {
namespace {

using cases::DataKind;
using cases::KdaSpec;

std::vector<KdaSpec> shapes() {
  return {
      {.B = 2, .T = 1, .H = 2, .K = 64, .V = 64},
      {.B = 1, .T = 37, .H = 2, .HV = 4, .K = 48, .V = 80},
      {.B = 1, .H = 1, .HV = 2, .K = 32, .V = 32, .lengths = {0, 5, 16, 33, 1, 0}},
      {.B = 1, .T = 70, .H = 1, .K = 128, .V = 128},
      {.B = 2, .T = 17, .H = 1, .K = 16, .V = 256},
      {.B = 1, .T = 16, .H = 2, .K = 256, .V = 24},
      {.B = 3, .T = 5, .H = 1, .HV = 3, .K = 1, .V = 1},
      {.B = 1, .T = 40, .H = 1, .HV = 2, .K = 100, .V = 3, .fused_projection = true},
      {.B = 1, .H = 2, .K = 64, .V = 64, .lengths = {65, 15}, .fused_projection = true},
  };
}

std::vector<KdaArgs> options() {
  return {
      {.output_final_state = true},
      {.scale = 0.5f, .output_final_state = true, .use_qk_l2norm_in_kernel = true},
      {.output_final_state = true,
       .use_qk_l2norm_in_kernel = true,
       .use_gate_in_kernel = true,
       .use_beta_sigmoid_in_kernel = true},
      {.output_final_state = true,
       .use_gate_in_kernel = true,
       .use_beta_sigmoid_in_kernel = true,
       .safe_gate = true,
       .lower_bound = -5.0f,
       .state_v_first = true},
      {.output_final_state = true,
       .use_qk_l2norm_in_kernel = true,
       .use_beta_sigmoid_in_kernel = true,
       .allow_neg_eigval = true},
      {.scale = -1.5f, .state_v_first = true},
      {.use_gate_in_kernel = true, .lower_bound = -40.0f},
  };
}

}  // namespace

std::vector<KdaSpec> kda_specs() {
  std::vector<KdaSpec> specs;
  const std::vector<KdaSpec> all_shapes = shapes();
  const std::vector<KdaArgs> all_options = options();
  constexpr std::array dtypes{DType::f32, DType::bf16, DType::f16};
  std::size_t turn = 0;
  for (const KdaSpec& shape : all_shapes) {
    for (const DataKind data : cases::kAllDataKinds) {
      for (const DType dtype : dtypes) {
        KdaSpec spec = shape;
        spec.data = data;
        spec.dtype = dtype;
        spec.gate_dtype = turn % 2 == 0 ? DType::f32 : dtype;
        spec.state_dtype = turn % 5 == 4 ? DType::bf16 : DType::f32;
        spec.index_dtype = turn % 3 == 0 ? DType::i32 : DType::i64;
        spec.initial_state = turn % 4 != 3;
        spec.options = all_options[(turn + turn / all_options.size()) % all_options.size()];
        // Equal keys that turn the state over with every token add the errors of 16-bit factors up without
        // end.
        if (data == DataKind::repeated_keys && dtype != DType::f32) spec.options.allow_neg_eigval = false;
        spec.seed = 100 + turn;
        specs.push_back(spec);
        ++turn;
      }
    }
  }
  return specs;
}

std::vector<KdaSpec> few_kda_specs() {
  std::vector<KdaSpec> specs;
  const std::vector<KdaSpec> all = kda_specs();
  for (std::size_t i = 0; i < all.size(); i += 8) specs.push_back(all[i]);
  return specs;
}

}  // namespace fla::conformance
