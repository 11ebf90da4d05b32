#include <gtest/gtest.h>

#include <array>

#include "fla/core/device_memory.h"
#include "fla/core/half.h"
#include "tests/gpu/gpu_agreement.h"
#include "tools/cases/random_case.h"

/// Elements that are further apart than 32 bits can count.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::TensorView;
using fla::cases::KdaCase;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla_test::kEveryWay;
using fla_test::kGpu;

constexpr std::int64_t kTokens = 40, kHeads = 2, kChannels = 64;
constexpr std::int64_t kTokenStride = std::int64_t{1}
                                      << 26;  // of bf16: tokens are 128 MiB apart, 5 GiB in all
constexpr std::int64_t kSlotStride = std::int64_t{1} << 31;  // of f32: the second slot begins at 8 GiB

class LargeOffsets : public fla_test::GpuTest {
 protected:
  void SetUp() override {
    fla_test::GpuTest::SetUp();
    if (IsSkipped()) return;
    std::size_t free = 0, total = 0;
    fla::check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
    if (free < std::size_t{24} << 30) GTEST_SKIP() << "not run: needs 24 GiB of free memory on the GPU";
  }
};

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
               std::size_t rows, cudaMemcpyKind kind) {
  fla::check_cuda(cudaMemcpy2D(to, to_pitch, from, from_pitch, bytes, rows, kind), "copying rows");
}

TEST_F(LargeOffsets, TokensMayBeApartMoreThan32BitsCount) {
  const KdaCase call = make_kda_case({.T = kTokens,
                                      .H = kHeads,
                                      .K = kChannels,
                                      .V = kChannels,
                                      .dtype = DType::bf16,
                                      .gate_dtype = DType::bf16,
                                      .data = fla::cases::DataKind::slow});
  const auto reference = fla::cases::reference_of(call.args);
  const std::size_t pitch = kTokenStride * 2;
  const auto memory = fla::allocate_on(kGpu, kTokens * pitch, {});
  fla::synchronize(kGpu);

  // A token's row holds q, k, v, g, beta and o side by side, as one large projection would.
  DeviceCall there(call.args, kGpu);
  KdaArgs args = there.args();
  std::int64_t column = 0;
  const auto place = [&](const TensorView& host, TensorView& device) {
    const std::int64_t width = host.stride(1);  // contiguous: what a token has
    std::array<std::int64_t, 4> strides{};
    for (int axis = 0; axis < host.rank(); ++axis)
      strides[static_cast<std::size_t>(axis)] = host.stride(axis);
    strides[1] = kTokenStride;
    device = TensorView(static_cast<fla::bf16*>(memory.get()) + column, DType::bf16, host.shape(),
                        std::span(strides.data(), host.shape().size()), kGpu);
    column += width;
    return static_cast<std::size_t>(width) * 2;
  };
  const std::array<std::pair<const TensorView*, TensorView*>, 5> inputs{{{&call.args.q, &args.q},
                                                                         {&call.args.k, &args.k},
                                                                         {&call.args.v, &args.v},
                                                                         {&call.args.g, &args.g},
                                                                         {&call.args.beta, &args.beta}}};
  for (const auto& [host, device] : inputs) {
    const std::size_t bytes = place(*host, *device);
    copy_rows(device->data(), pitch, host->data(), bytes, bytes, kTokens, cudaMemcpyHostToDevice);
  }
  const std::size_t bytes = place(call.args.v, args.out);
  for (const auto& [name, run] : kEveryWay) {
    fla::check_cuda(cudaMemset2D(args.out.data(), pitch, 0xff, bytes, kTokens), "poisoning o");
    const KdaResult result = run(args);
    fla::synchronize(kGpu);
    const fla::Tensor o = fla::Tensor::empty(call.args.v.shape(), DType::bf16);
    copy_rows(o.data(), bytes, args.out.data(), pitch, bytes, kTokens, cudaMemcpyDeviceToHost);
    fla_test::expect_within_bars({o, fla::copy_to(result.final_state, {})}, reference, call.args, name,
                                 fla_test::selected_backend(name, args));
  }
}

TEST_F(LargeOffsets, SlotsMayBeApartMoreThan32BitsCount) {
  for (const std::int64_t tokens : {std::int64_t{1}, kTokens}) {
    const KdaCase call = make_kda_case({.B = 2, .T = tokens, .H = kHeads, .K = kChannels, .V = kChannels});
    const auto reference = fla::cases::reference_of(call.args);
    const TensorView& initial = call.args.initial_state;
    const std::size_t pitch = kSlotStride * sizeof(float),
                      bytes = static_cast<std::size_t>(initial.stride(0)) * 4;
    const auto memory = fla::allocate_on(kGpu, pitch + bytes, {});
    fla::synchronize(kGpu);
    DeviceCall there(call.args, kGpu);
    KdaArgs args = there.args();
    const std::array<std::int64_t, 4> strides{kSlotStride, initial.stride(1), initial.stride(2), 1};
    args.initial_state = args.final_state =
        TensorView(memory.get(), DType::f32, initial.shape(), strides, kGpu);
    auto* const slots = static_cast<std::byte*>(memory.get());
    for (const auto& [name, run] : kEveryWay) {
      const fla::Tensor state = fla::Tensor::empty(initial.shape(), DType::f32);
      for (const std::size_t n : {std::size_t{0}, std::size_t{1}}) {
        fla::check_cuda(
            cudaMemcpy(slots + n * pitch, initial.as<std::byte>() + n * bytes, bytes, cudaMemcpyHostToDevice),
            "sending a state");
      }
      const KdaResult result = run(args);
      fla::synchronize(kGpu);
      for (const std::size_t n : {std::size_t{0}, std::size_t{1}}) {
        fla::check_cuda(
            cudaMemcpy(state.as<std::byte>() + n * bytes, slots + n * pitch, bytes, cudaMemcpyDeviceToHost),
            "fetching a state");
      }
      fla_test::expect_within_bars({fla::copy_to(result.o, {}), state}, reference, call.args, name);
    }
  }
}

}  // namespace
