#include "tools/conformance/op_specs.h"

#include <array>
#include <string_view>
#include <utility>

#include "tools/cases/case.h"

namespace fla::conformance {
namespace {

using cases::DataKind;

template <class Args>
std::vector<cases::CaseSpec<Args>> shapes() {
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

/// Options that go together, of which an op takes those that it has.
constexpr std::pair<std::string_view, std::string_view> kOptions[][5] = {
    {},
    {{"scale", "0.5"}, {"use_qk_l2norm_in_kernel", "1"}},
    {{"use_qk_l2norm_in_kernel", "1"}, {"use_gate_in_kernel", "1"}, {"use_beta_sigmoid_in_kernel", "1"}},
    {{"use_gate_in_kernel", "1"},
     {"use_beta_sigmoid_in_kernel", "1"},
     {"safe_gate", "1"},
     {"lower_bound", "-5"},
     {"state_v_first", "1"}},
    {{"use_qk_l2norm_in_kernel", "1"},
     {"use_beta_sigmoid_in_kernel", "1"},
     {"allow_neg_eigval", "1"},
     {"normalize", "1"}},
    {{"output_final_state", "0"}, {"scale", "-1.5"}, {"state_v_first", "1"}},
    {{"output_final_state", "0"}, {"use_gate_in_kernel", "1"}, {"lower_bound", "-40"}},
};

template <class Args>
std::vector<Args> options() {
  std::vector<Args> all;
  for (const auto& together : kOptions) {
    Args& args = all.emplace_back(Args{.output_final_state = true});
    for (const auto& [name, value] : together) {
      if (find_argument(Args::arguments(), name) != nullptr)
        cases::set_option(Args::arguments(), &args, name, value);
    }
  }
  return all;
}

}  // namespace

template <RecurrenceArgs Args>
std::vector<cases::CaseSpec<Args>> specs_of() {
  using Spec = cases::CaseSpec<Args>;
  std::vector<Spec> specs;
  const std::vector<Spec> all_shapes = shapes<Args>();
  const std::vector<Args> all_options = options<Args>();
  constexpr std::array dtypes{DType::f32, DType::bf16, DType::f16};
  std::size_t turn = 0;
  for (const Spec& shape : all_shapes) {
    for (const DataKind data : cases::kAllDataKinds) {
      for (const DType dtype : dtypes) {
        Spec spec = shape;
        spec.data = data;
        spec.dtype = dtype;
        spec.gate_dtype = turn % 2 == 0 ? DType::f32 : dtype;
        spec.state_dtype = turn % 5 == 4 ? DType::bf16 : DType::f32;
        spec.index_dtype = turn % 3 == 0 ? DType::i32 : DType::i64;
        spec.initial_state = turn % 4 != 3;
        spec.options = all_options[(turn + turn / all_options.size()) % all_options.size()];
        // Equal keys that turn the state over with every token add the errors of 16-bit factors up without
        // end.
        if constexpr (requires { spec.options.allow_neg_eigval; }) {
          if (data == DataKind::repeated_keys && dtype != DType::f32) spec.options.allow_neg_eigval = false;
        }
        if constexpr (requires { spec.options.g_gamma; }) spec.head_gates = turn % 3 == 1;
        spec.seed = 100 + turn;
        specs.push_back(spec);
        ++turn;
      }
    }
  }
  return specs;
}

template <RecurrenceArgs Args>
std::vector<cases::CaseSpec<Args>> few_specs_of() {
  std::vector<cases::CaseSpec<Args>> specs;
  const std::vector<cases::CaseSpec<Args>> all = specs_of<Args>();
  for (std::size_t i = 0; i < all.size(); i += 8) specs.push_back(all[i]);
  return specs;
}

#define FLA_OP(NAME, ARGS)                                \
  template std::vector<cases::CaseSpec<ARGS>> specs_of(); \
  template std::vector<cases::CaseSpec<ARGS>> few_specs_of();
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
