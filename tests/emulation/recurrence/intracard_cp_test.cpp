#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "backends/intracard_cp/parts.h"
#include "tests/emulation/recurrence/forward.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/laid_out.h"

/// Calls in parts, by kernels that the C++ compiler made for the CPU.
namespace {

using fla::CallExtras;
using fla::DType;
using fla::RecurrenceCall;
using fla::RecurrenceResult;
using fla::cases::DataKind;
using fla::intracard_cp::Cut;
using fla_test::run_emulated;

/// Parts of 64 tokens.
constexpr Cut kShort{.parts = 4, .least = 64};

template <class Args>
RecurrenceResult run_parts(const Args& args, const Cut& cut) {
  return run_emulated(
      args,
      [&cut](const RecurrenceCall& call, const CallExtras& extras) {
        return fla::intracard_cp::workspace_bytes(call, extras, cut);
      },
      [&cut](const RecurrenceCall& call, const CallExtras& extras, void* workspace, cudaStream_t stream) {
        return fla::intracard_cp::launch(call, extras, cut, workspace, stream);
      });
}

template <class Args>
void expect_right(const fla::cases::CaseSpec<Args>& spec, const Cut& cut, const std::string& what) {
  const auto made = fla::cases::make_case(spec);
  const auto reference = fla::cases::reference_of(made.args);
  const fla::cases::Errors errors = fla::cases::errors_of(run_parts(made.args, cut), reference);
  EXPECT_LE(errors.o, fla::cases::tolerance(spec.dtype)) << what << ", parts: " << cut.parts;
  EXPECT_LE(errors.final_state, 2e-5) << what << ", parts: " << cut.parts;
}

template <class Args>
class EmulatedParts : public testing::Test {
 public:
  using Spec = fla::cases::CaseSpec<Args>;
};

#define FLA_OP(NAME, ARGS) , fla::ARGS
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
TYPED_TEST_SUITE(EmulatedParts, TypesBut<void FLA_RECURRENCE_OPS(FLA_OP)>, fla_test::OpName);
#undef FLA_OP

TYPED_TEST(EmulatedParts, AgreeWithTheReference) {
  const typename TestFixture::Spec plain{
      .B = 2, .T = 150, .H = 1, .HV = 2, .K = 24, .V = 40, .data = DataKind::slow};
  auto packed = plain;
  packed.B = 1, packed.lengths = {5, 0, 230, 1, 64};
  for (const Cut cut : {kShort, Cut{3, 64}, Cut{1, 64}, Cut{9, 64}}) {
    expect_right(plain, cut, "batches");
    expect_right(packed, cut, "packed sequences");
  }
  auto spec = plain;
  spec.initial_state = false;
  expect_right(spec, kShort, "from zeros");
  spec.options.output_final_state = false;
  expect_right(spec, kShort, "without states");
  spec = packed;
  spec.options.state_v_first = true;
  spec.state_dtype = DType::bf16;
  {
    const auto made = fla::cases::make_case(spec);
    const auto reference = fla::cases::reference_of(made.args);
    const fla::cases::Errors errors = fla::cases::errors_of(run_parts(made.args, kShort), reference);
    EXPECT_LE(errors.o, fla::cases::tolerance(spec.dtype));
    EXPECT_LE(errors.final_state, fla::cases::tolerance(DType::bf16)) << "states in bf16";
  }
  std::vector<typename TestFixture::Spec> specs;
  fla_test::add_options(specs, plain, plain);
  for (auto& each : specs) {
    if constexpr (requires { each.options.normalize; }) each.options.normalize = false;
    expect_right(each, kShort, "options");
  }
}

TYPED_TEST(EmulatedParts, AgreeForEverySizeOfKernels) {
  expect_right<TypeParam>({.T = 130, .H = 1, .K = 128, .V = 48, .dtype = DType::bf16, .data = DataKind::slow},
                          kShort, "K=128");
  expect_right<TypeParam>({.T = 100, .H = 1, .K = 200, .V = 20, .data = DataKind::slow}, kShort, "K=200");
  expect_right<TypeParam>({.T = 100, .H = 1, .K = 64, .V = 17, .dtype = DType::f16, .data = DataKind::slow},
                          kShort, "K=64");
}

TYPED_TEST(EmulatedParts, AgreeForSlowStrongAndResettingGates) {
  for (const DataKind data :
       {DataKind::slow, DataKind::bound, DataKind::strong, DataKind::resets, DataKind::mixed}) {
    expect_right<TypeParam>({.T = 200, .H = 1, .K = 32, .V = 16, .data = data}, kShort,
                            std::string(fla::cases::name_of(data)));
  }
}

TYPED_TEST(EmulatedParts, ReadAndWriteSlotsOfAPool) {
  for (const bool write_indices : {false, true}) {
    typename TestFixture::Spec spec{
        .H = 1, .HV = 2, .K = 24, .V = 40, .lengths = {70, 0, 230, 1, 33}, .data = DataKind::slow};
    spec.pool = 14;
    spec.write_indices = write_indices;
    const auto made = fla::cases::make_case(spec);
    const auto reference = fla::cases::reference_of(made.args);
    const auto before = fla::conformance::LaidOut::copy_of(made.args.final_state);
    const RecurrenceResult result = run_parts(made.args, kShort);
    const fla::cases::Errors errors = fla::cases::errors_of(result, reference);
    EXPECT_LE(errors.worst(), 2e-5) << write_indices;
    for (std::int64_t slot = 0; slot < *spec.pool; ++slot) {
      if (std::ranges::find(reference.slots, slot) != reference.slots.end()) continue;
      EXPECT_EQ(fla::conformance::bytes_of(result.final_state.view().slice(0, slot, 1)),
                fla::conformance::bytes_of(before.view().slice(0, slot, 1)))
          << slot;
    }
  }
}

/// Whatever cu_seqlens and slots on a device hold, nothing outside the tensors and the workspace is touched.
TYPED_TEST(EmulatedParts, IndicesOutOfRangeStayInBounds) {
  typename TestFixture::Spec spec{.H = 1, .K = 24, .V = 40, .lengths = {70, 33, 40}};
  spec.pool = 5;
  const auto made = fla::cases::make_case(spec);
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  for (const std::array<std::int64_t, 4>& bounds :
       {std::array<std::int64_t, 4>{0, kHuge, 0, 143}, {143, 0, 143, 0}, {-kHuge, 5, 3, -1}}) {
    std::array<std::int64_t, 3> slots{kHuge, -kHuge, 5};
    fla::RecurrenceResult result = fla::make_result(made.args);
    RecurrenceCall call = fla::call_of(made.args, result);
    call.cu_seqlens = {.data = bounds.data(), .wide = true};
    call.read_slots = {.data = slots.data(), .wide = true};
    const CallExtras extras = fla::recurrence::extras_of(fla::recurrence::arguments_of(made.args));
    constexpr std::size_t kBehind = 4096;
    const std::size_t bytes = fla::intracard_cp::workspace_bytes(call, extras, kShort);
    const auto workspace = fla_test::workspace_of(bytes + kBehind);
    EXPECT_EQ(fla::intracard_cp::launch(call, extras, kShort, workspace.get(), nullptr), cudaSuccess);
    const std::vector<unsigned char> untouched(kBehind, 0xff);
    EXPECT_EQ(std::memcmp(static_cast<char*>(workspace.get()) + bytes, untouched.data(), kBehind), 0);
  }
}

}  // namespace
