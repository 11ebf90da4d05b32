#include "tools/cases/accuracy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fla/ops/ops.h"
#include "tests/backends/intracard_cp/intracard_cp_test.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/laid_out.h"

/// Results of intracard_cp against the float64 reference, for every op.
namespace {

using fla::DType;
using fla::cases::DataKind;
using fla::cases::Functions;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla_test::kGpu;

template <class Args>
class IntracardCpNumbers : public fla_test::IntracardCpTest {
 public:
  using Spec = fla::cases::CaseSpec<Args>;

  /// Its result on the host; it must take the call.
  static fla::RecurrenceResult result_of(const Args& host, DeviceIndices indices) {
    const fla::ScopedPolicy required({.require = {{std::string(Args::kOp.name), "intracard_cp"}}});
    DeviceCall call(host, kGpu, indices);
    fla::RecurrenceResult result = call.bring_back(Functions<Args>::chunk(call.args()));
    EXPECT_EQ(call.damage(), "");
    return result;
  }

  static void expect_right(const Spec& spec, const std::string& what) {
    const auto made = fla::cases::make_case(spec);
    const auto reference = fla::cases::reference_of(made.args);
    for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
      const fla::cases::Errors errors = fla::cases::errors_of(result_of(made.args, indices), reference);
      EXPECT_LE(errors.o, fla::cases::tolerance(spec.dtype)) << what;
      EXPECT_LE(errors.final_state, fla::cases::tolerance(spec.state_dtype)) << what;
    }
  }
};

#define FLA_OP(NAME, ARGS) , fla::ARGS
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
TYPED_TEST_SUITE(IntracardCpNumbers, TypesBut<void FLA_RECURRENCE_OPS(FLA_OP)>, fla_test::OpName);
#undef FLA_OP

TYPED_TEST(IntracardCpNumbers, AreRight) {
  this->expect_right({.T = 4100, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16, .data = DataKind::slow},
                     "bf16");
  this->expect_right(
      {.B = 2, .T = 2500, .H = 1, .HV = 2, .K = 64, .V = 64, .dtype = DType::f16, .data = DataKind::slow},
      "f16");
  this->expect_right({.T = 3000, .H = 1, .K = 256, .V = 40, .data = DataKind::slow, .initial_state = false},
                     "f32, K=256");
}

TYPED_TEST(IntracardCpNumbers, AreRightForPackedSequencesInAPool) {
  for (const bool write_indices : {false, true}) {
    typename TestFixture::Spec spec{.H = 1,
                                    .K = 64,
                                    .V = 64,
                                    .lengths = {5, 8000, 0, 300, 4000},
                                    .state_dtype = DType::bf16,
                                    .data = DataKind::slow};
    spec.pool = 14;
    spec.write_indices = write_indices;
    spec.options.state_v_first = write_indices;
    this->expect_right(spec, "a pool");
  }
}

TYPED_TEST(IntracardCpNumbers, AreRightForSlowStrongAndResettingGates) {
  for (const DataKind data :
       {DataKind::slow, DataKind::bound, DataKind::strong, DataKind::resets, DataKind::mixed}) {
    this->expect_right({.T = 4096, .H = 1, .K = 64, .V = 64, .data = data},
                       std::string(fla::cases::name_of(data)));
  }
}

TYPED_TEST(IntracardCpNumbers, AreRightWithGatesInTheKernel) {
  typename TestFixture::Spec spec{.T = 2048, .H = 1, .HV = 2, .K = 64, .V = 64};
  if constexpr (requires { spec.options.use_gate_in_kernel; }) {
    spec.options.use_qk_l2norm_in_kernel = spec.options.use_gate_in_kernel = true;
    spec.options.use_beta_sigmoid_in_kernel = true;
    this->expect_right(spec, "gates");
  }
  if constexpr (requires { spec.options.g_gamma; }) {
    spec.head_gates = true;
    this->expect_right(spec, "a gate a head");
  }
}

/// Indices on a device are read by kernels alone, so that a captured call follows them.
TYPED_TEST(IntracardCpNumbers, HaveTheSameBitsInAGraph) {
  typename TestFixture::Spec spec{.H = 1, .K = 64, .V = 64, .lengths = {3000, 2000}};
  const auto made = fla::cases::make_case(spec);
  auto host = made.args;
  const fla::Tensor out = fla::Tensor::zeros(host.v.shape(), host.v.dtype());
  const fla::Tensor state = fla::Tensor::zeros(host.initial_state.shape(), DType::f32);
  host.out = out, host.final_state = state;
  fla_test::CudaStream stream;
  host.stream = stream.stream();
  const fla::ScopedPolicy required({.require = {{std::string(TypeParam::kOp.name), "intracard_cp"}}});
  DeviceCall<TypeParam> call(host, kGpu);
  (void)call.bring_back(Functions<TypeParam>::chunk(call.args()));
  const fla::Tensor first_o = fla::copy_to(out, {}), first_state = fla::copy_to(state, {});
  fla::RecurrenceResult result;
  const fla_test::CudaGraph graph(stream, cudaStreamCaptureModeGlobal,
                                  [&] { result = Functions<TypeParam>::chunk(call.args()); });
  call.load(host);
  graph.launch();
  (void)call.bring_back(result);
  EXPECT_EQ(fla::cases::relative_error(out, first_o), 0);
  EXPECT_EQ(fla::cases::relative_error(state, first_state), 0);
}

TYPED_TEST(IntracardCpNumbers, AgreeWithTheOriginalKernels) {
  const auto made = fla::cases::make_case(typename TestFixture::Spec{
      .T = 8192, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16, .data = DataKind::slow});
  DeviceCall<TypeParam> call(made.args, kGpu);
  const fla::RecurrenceResult plain = call.bring_back(Functions<TypeParam>::original_chunk(call.args()));
  const fla::RecurrenceResult parts = this->result_of(made.args, DeviceIndices::on_device);
  EXPECT_LE(fla::cases::relative_error(parts.final_state, plain.final_state), 2e-5);
}

}  // namespace
