#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "tests/gpu/gpu.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/device_call.h"

namespace fla_test {

/// How far from the float64 reference a result on a GPU may be: closer than what every backend is held to.
struct Bars {
  double o, final_state;
};

inline double bar_of_inputs(fla::DType dtype) {
  return dtype == fla::DType::bf16 ? 4e-3 : dtype == fla::DType::f16 ? 1e-3 : 2e-5;
}

/// The coarsest of q, k, v counts; a state in f32 is as exact as its sums, one in bf16 is rounded.
/// flash_kda's products are coarser than the inputs; its own tests have a bar for every kind of data.
inline Bars bars_of(const fla::KdaArgs& args, fla::DType state, std::string_view selected) {
  if (selected == "flash_kda") return {5e-3, 5e-3};
  const double inputs =
      std::max({bar_of_inputs(args.q.dtype()), bar_of_inputs(args.k.dtype()), bar_of_inputs(args.v.dtype())});
  return {inputs, state == fla::DType::bf16 ? 4e-3 : std::min(inputs, 1e-3)};
}

inline void expect_within_bars(const fla::KdaResult& result, const fla::cases::Reference& reference,
                               const fla::KdaArgs& args, const std::string& way,
                               std::string_view selected = "original") {
  const fla::cases::Errors errors = fla::cases::errors_of(result, reference);
  const Bars bars =
      bars_of(args, result.final_state.defined() ? result.final_state.dtype() : fla::DType::f32, selected);
  EXPECT_LE(errors.o, bars.o) << way << " " << fla::conformance::describe(args);
  EXPECT_LE(errors.final_state, bars.final_state) << way << " " << fla::conformance::describe(args);
}

/// Who runs the call when it goes one of kEveryWay.
inline std::string selected_backend(std::string_view way, const fla::KdaArgs& args) {
  return way.starts_with("original::") ? "original" : fla::explain("kda", way, args).selected;
}

/// Runs a call that lies on the host every way on the GPU, with its indices there and here, and expects the
/// float64 reference's answer. A state that is updated in place is for others to test.
inline void expect_agreement_on_gpu(const fla::KdaArgs& host) {
  using Indices = fla::conformance::DeviceIndices;
  const bool has_indices = host.cu_seqlens.defined() || host.state_indices.defined();
  const fla::cases::Reference reference = fla::cases::reference_of(host);
  for (const Indices indices : {Indices::on_device, Indices::on_host}) {
    if (indices == Indices::on_host && !has_indices) continue;
    for (const auto& [name, run] : kEveryWay) {
      const std::string way = name + std::string(indices == Indices::on_host ? ", indices on the host" : "");
      fla::conformance::DeviceCall call(host, kGpu, indices);
      const fla::KdaResult result = call.bring_back(run(call.args()));
      EXPECT_EQ(call.damage(), "") << way;
      EXPECT_EQ(result.final_state.defined(), host.output_final_state || host.final_state.defined()) << way;
      expect_within_bars(result, reference, host, way, selected_backend(name, call.args()));
    }
  }
}

}  // namespace fla_test
