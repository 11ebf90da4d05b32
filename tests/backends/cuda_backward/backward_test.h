#pragma once

#include <gtest/gtest.h>

#include <string>

#include "fla/ops/ops.h"
#include "tests/backends/chunk_backend.h"
#include "tests/ops/recurrence/gradient_checks.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/conformance/device_call.h"

/// Gradients of cuda_backward.
namespace fla_test {

inline constexpr char kCudaBackward[] = "cuda_backward";
template <class Base>
using OnHopper = ChunkBackend<kCudaBackward>::Fixture<Base>;

using BackwardOps = testing::Types<fla::KdaArgs, fla::GatedDeltaRuleArgs>;

/// A call that it takes: bf16, one head of K = V = 128.
template <class Args>
fla::cases::CaseSpec<Args> spec_of(std::int64_t T) {
  fla::cases::CaseSpec<Args> spec{.T = T, .H = 1, .K = 128, .V = 128, .dtype = fla::DType::bf16};
  spec.options.use_qk_l2norm_in_kernel = true;
  return spec;
}

/// Its gradients on the host; it must take the call.
template <class Args>
fla::RecurrenceGradients gradients_of(
    const typename Args::Backward& host,
    fla::conformance::DeviceIndices indices = fla::conformance::DeviceIndices::on_device) {
  const fla::ScopedPolicy required({.require = {{std::string(Args::kOp.name), kCudaBackward}}});
  fla::conformance::DeviceCall<typename Args::Backward> call(host, kGpu, indices);
  fla::RecurrenceGradients gradients = call.bring_back(fla::cases::Functions<Args>::backward(call.args()));
  EXPECT_EQ(call.damage(), "");
  return gradients;
}

/// Expects the gradients of a call to be those of the float64 reference.
template <class Args>
void expect_right(const fla::cases::CaseSpec<Args>& spec, const std::string& what) {
  const double tolerance = fla::cases::gradient_tolerance(fla::DType::bf16);
  const BackwardCase<Args> made(spec);
  const auto reference = fla::cases::named_gradients(fla::cases::gradient_reference_of(made.args));
  using Indices = fla::conformance::DeviceIndices;
  for (const Indices indices : {Indices::on_device, Indices::on_host}) {
    if (indices == Indices::on_host && !made.args.cu_seqlens.defined()) continue;
    const auto gradients = fla::cases::named_gradients(gradients_of<Args>(made.args, indices));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto& [name, gradient] = gradients[i];
      ASSERT_EQ(gradient.numel() > 0, !reference[i].second.empty()) << what << ", " << name;
      if (gradient.numel() == 0) continue;
      EXPECT_LE(fla::cases::gradient_error(gradient, reference[i].second), tolerance)
          << Args::kOp.name << ", " << what << ", " << name;
    }
  }
}

/// Expects gradients of the same bits.
inline void expect_same_bits(const fla::RecurrenceGradients& a, const fla::RecurrenceGradients& b,
                             const std::string& what) {
  const auto left = fla::cases::named_gradients(a), right = fla::cases::named_gradients(b);
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto& [name, gradient] = left[i];
    ASSERT_EQ(gradient.defined(), right[i].second.defined()) << what << ", " << name;
    if (!gradient.defined()) continue;
    EXPECT_TRUE(same_bits(gradient, right[i].second)) << what << ", " << name;
  }
}

}  // namespace fla_test
