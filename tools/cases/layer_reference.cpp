#include "tools/cases/layer_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/step/call_of.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/offsets.h"
#include "tools/cases/recurrence_reference.h"
#include "tools/cases/reference_token.h"

namespace fla::cases {
namespace {

std::int64_t entry(const TensorView& index, std::int64_t i) {
  const std::int64_t at = i * index.stride(0);
  return index.dtype() == DType::i64 ? index.as<std::int64_t>()[at] : index.as<std::int32_t>()[at];
}

double at(const TensorView& tensor, std::int64_t i, std::int64_t j, std::int64_t k) {
  return element(tensor, i * tensor.stride(0) + j * tensor.stride(1) + k * tensor.stride(2));
}

}  // namespace

ShortConvReference reference_of(const ShortConvArgs& args) {
  const std::int64_t T = args.x.size(1), D = args.x.size(2), W = args.weight.size(1);
  const bool packed = args.cu_seqlens.defined();
  const std::int64_t N = packed ? args.cu_seqlens.size(0) - 1 : args.x.size(0);
  const TensorView& pool = args.final_state.defined() ? args.final_state : args.initial_state;
  const std::int64_t P = args.state_indices.defined() && pool.defined() ? pool.size(0) : N;
  ShortConvReference made{std::vector<double>(static_cast<std::size_t>(args.x.numel())),
                          std::vector<double>(static_cast<std::size_t>(P * D * (W - 1)))};
  if (args.final_state.defined()) {
    auto slot = made.final_state.begin();
    for_each_offset(args.final_state,
                    [&](std::int64_t offset) { *slot++ = element(args.final_state, offset); });
  }
  for (std::int64_t n = 0; n < N; ++n) {
    const std::int64_t batch = packed ? 0 : n, begin = packed ? entry(args.cu_seqlens, n) : 0,
                       end = packed ? entry(args.cu_seqlens, n + 1) : T;
    const std::int64_t read = args.state_indices.defined() ? entry(args.state_indices, n) : n;
    const std::int64_t write = args.state_write_indices.defined() ? entry(args.state_write_indices, n) : read;
    if (read < 0) continue;
    for (std::int64_t c = 0; c < D; ++c) {
      // The input `t` tokens from the sequence's first.
      const auto input = [&](std::int64_t t) {
        if (t >= 0) return at(args.x, batch, begin + t, c);
        return args.initial_state.defined() ? at(args.initial_state, read, c, W - 1 + t) : 0.0;
      };
      for (std::int64_t t = 0; t < end - begin; ++t) {
        double sum = args.bias.defined() ? element(args.bias, c * args.bias.stride(0)) : 0;
        for (std::int64_t j = 0; j < W; ++j)
          sum += element(args.weight, c * args.weight.stride(0) + j * args.weight.stride(1)) *
                 input(t - W + 1 + j);
        made.o[static_cast<std::size_t>((batch * T + begin + t) * D + c)] =
            args.use_silu ? sum * reference::sigmoid(sum) : sum;
      }
      for (std::int64_t i = 0; write >= 0 && i < W - 1; ++i)
        made.final_state[static_cast<std::size_t>((write * D + c) * (W - 1) + i)] =
            input(end - begin - (W - 1) + i);
    }
  }
  return made;
}

std::vector<double> reference_of(const GatedRmsNormArgs& args) {
  const std::int64_t T = args.x.size(1), HV = args.x.size(2), V = args.x.size(3);
  const double eps = args.eps.value_or(1e-6f);
  std::vector<double> o;
  for (std::int64_t row = 0; row < args.x.size(0) * T * HV; ++row) {
    const auto value = [&](const TensorView& tensor, std::int64_t i) {
      return element(tensor, row / HV / T * tensor.stride(0) + row / HV % T * tensor.stride(1) +
                                 row % HV * tensor.stride(2) + i * tensor.stride(3));
    };
    double squares = 0;
    for (std::int64_t i = 0; i < V; ++i) squares += value(args.x, i) * value(args.x, i);
    for (std::int64_t i = 0; i < V; ++i) {
      const double g = value(args.g, i);
      const double weight = args.weight.defined() ? element(args.weight, i * args.weight.stride(0)) : 1;
      o.push_back(value(args.x, i) / std::sqrt(squares / static_cast<double>(V) + eps) * weight *
                  reference::sigmoid(g) * (args.use_sigmoid ? 1 : g));
    }
  }
  return o;
}

namespace {

/// In f32, as an input of the part of a step that comes next.
Tensor as_f32(const std::vector<double>& numbers, std::span<const std::int64_t> shape) {
  Tensor tensor = Tensor::empty(shape, DType::f32);
  for (std::size_t i = 0; i < numbers.size(); ++i) store(tensor, static_cast<std::int64_t>(i), numbers[i]);
  return tensor;
}

}  // namespace

StepReference reference_of(const step::Arguments& args) {
  ShortConvReference conv = reference_of(ShortConvArgs{.x = args.x,
                                                       .weight = args.conv_weight,
                                                       .bias = args.conv_bias,
                                                       .initial_state = args.conv_state,
                                                       .use_silu = true,
                                                       .state_indices = args.state_indices,
                                                       .final_state = args.conv_state});
  const Tensor qkv = as_f32(conv.o, args.x.shape());
  step::Arguments widened{args.op,
                          args.table,
                          args.args,
                          qkv.view(),
                          args.conv_weight,
                          args.conv_state,
                          args.g,
                          args.beta,
                          args.z,
                          args.state,
                          args.conv_bias,
                          args.A_log,
                          args.dt_bias,
                          args.norm_weight,
                          args.state_indices,
                          args.out,
                          args.scale,
                          args.lower_bound,
                          args.norm_eps,
                          args.use_qk_l2norm_in_kernel,
                          args.use_gate_in_kernel,
                          args.use_beta_sigmoid_in_kernel,
                          args.allow_neg_eigval,
                          args.safe_gate,
                          args.state_v_first,
                          args.norm_use_sigmoid,
                          args.stream,
                          args.workspace};
  const Reference made =
      step::with_recurrence(widened, {.qkv = qkv.view().data()}, [](const recurrence::Arguments& recurrence) {
        return recurrence_reference(recurrence::call_of(recurrence, RecurrenceResult{}));
      });
  StepReference reference{.o = {}, .conv_state = std::move(conv.final_state), .state = {}};
  for_each_offset(args.state,
                  [&](std::int64_t offset) { reference.state.push_back(element(args.state, offset)); });
  const std::int64_t B = args.x.size(0);
  const std::size_t size = B == 0 ? 0 : made.final_state.size() / static_cast<std::size_t>(B);
  const std::size_t row = B == 0 ? 0 : made.o.size() / static_cast<std::size_t>(B);
  const Tensor o = as_f32(made.o, args.z.shape());
  reference.o = reference_of(GatedRmsNormArgs{.x = o,
                                              .g = args.z,
                                              .weight = args.norm_weight,
                                              .eps = args.norm_eps,
                                              .use_sigmoid = args.norm_use_sigmoid});
  for (std::int64_t n = 0; n < B; ++n) {
    const std::int64_t slot = args.state_indices.defined() ? entry(args.state_indices, n) : n;
    const auto at = static_cast<std::size_t>(n), to = static_cast<std::size_t>(slot);
    if (slot < 0) {
      std::fill_n(reference.o.begin() + static_cast<std::ptrdiff_t>(at * row), row, 0.0);
    } else {
      std::copy_n(made.final_state.begin() + static_cast<std::ptrdiff_t>(at * size), size,
                  reference.state.begin() + static_cast<std::ptrdiff_t>(to * size));
    }
  }
  return reference;
}

}  // namespace fla::cases
