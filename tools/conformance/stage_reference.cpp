#include "tools/conformance/stage_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tools/cases/accuracy.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {
namespace {

std::vector<double> values_of(const TensorView& tensor) {
  std::vector<double> values;
  for_each_offset(tensor, [&](std::int64_t offset) { values.push_back(cases::element(tensor, offset)); });
  return values;
}

std::size_t size(const TensorView& tensor, int axis) { return static_cast<std::size_t>(tensor.size(axis)); }

}  // namespace

std::vector<double> stage_reference(const L2NormArgs& args) {
  std::vector<double> values = values_of(args.x);
  const std::size_t K = size(args.x, 3);
  for (std::size_t row = 0; row < values.size(); row += K) {
    double sum = 1e-6;
    for (std::size_t i = row; i < row + K; ++i) sum += values[i] * values[i];
    for (std::size_t i = row; i < row + K; ++i) values[i] /= std::sqrt(sum);
  }
  return values;
}

std::vector<double> stage_reference(const GateArgs& args) {
  std::vector<double> values = values_of(args.g), bias, rates;
  if (args.dt_bias.defined()) bias = values_of(args.dt_bias);
  if (args.A_log.defined()) rates = values_of(args.A_log);
  const std::size_t HV = size(args.g, 2), K = size(args.g, 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t head = i / K % HV;
    const double rate = rates.empty() ? 1 : std::exp(rates[head]);
    const double x = values[i] + (bias.empty() ? 0 : bias[head * K + i % K]);
    const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    values[i] = args.lower_bound ? double{*args.lower_bound} / (1 + std::exp(-rate * x)) : -rate * softplus;
  }
  return values;
}

std::vector<double> stage_reference(const SolveTrilArgs& args) {
  const std::vector<double> A = values_of(args.A);
  std::vector<double> T(A.size(), 0);
  const std::size_t tokens = size(args.A, 1), HV = size(args.A, 2), C = size(args.A, 3);
  for (std::size_t row = 0; row < A.size() / C; ++row) {  // (batch, token, head), the head fastest
    const std::size_t token = row / HV % tokens, i = token % C;
    const auto earlier = [&](std::size_t m) { return (row - (i - m) * HV) * C; };
    T[row * C + i] = 1;
    for (std::size_t j = 0; j < i; ++j) {
      for (std::size_t m = j; m < i; ++m) T[row * C + j] -= A[row * C + m] * T[earlier(m) + j];
    }
  }
  return T;
}

}  // namespace fla::conformance
