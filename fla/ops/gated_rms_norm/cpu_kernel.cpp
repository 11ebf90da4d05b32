#include "fla/ops/gated_rms_norm/cpu_kernel.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/ops/common/gate.h"
#include "fla/ops/common/rows.h"

namespace fla {
namespace {

constexpr std::int64_t kFewChannels = 256;

/// In several sums, of which each stays small: a long row loses no more than a short one.
float mean_of_squares(const float* x, std::int64_t count) {
  constexpr std::int64_t kSums = 16;
  float sums[kSums] = {};
  for (std::int64_t i = 0; i < count; i += kSums) {
    const std::int64_t here = std::min(kSums, count - i);
    for (std::int64_t j = 0; j < here; ++j) sums[j] += x[i + j] * x[i + j];
  }
  float all = 0;
  for (const float sum : sums) all += sum;
  return all / static_cast<float>(count);
}

/// `x`, `g` and `weight` are rows of V floats.
void normalise_row(const GatedRmsNormCall& call, std::int64_t row, const float* weight, float* x, float* g) {
  const auto load = [&](const common::Rows& from, float* to) {
    common::load_row(from.data, from.dtype, call.row_at(from, row), from.channel, call.V, to);
  };
  load(call.x, x);
  load(call.g, g);
  const float factor = 1 / std::sqrt(mean_of_squares(x, call.V) + call.eps);
  for (std::int64_t i = 0; i < call.V; ++i) {
    const float gate = common::sigmoid(g[i]) * (call.silu ? g[i] : 1);
    x[i] = x[i] * factor * (weight ? weight[i] : 1) * gate;
  }
  if (call.skips(row)) std::fill_n(x, call.V, 0.0f);
  common::store_row(call.o.data, call.o.dtype, call.row_at(call.o, row), call.o.channel, call.V, x);
}

}  // namespace

void gated_rms_norm_on_cpu(const GatedRmsNormCall& call) {
  const std::int64_t rows = call.rows();
  // Enough rows a task that weights, which are converted once for it, cost little.
  const std::int64_t together = 16, tasks = (rows + together - 1) / together;
  // An exponential and some multiplications an element.
  const int threads = threads_worth(25.0 * static_cast<double>(rows) * static_cast<double>(call.V));
  parallel_for(tasks, threads, [&](std::int64_t task, int) {
    // Rows of a recurrence need no memory that may not be there.
    float few[3 * kFewChannels];
    std::optional<HeldScratch> scratch;
    if (call.V > kFewChannels) scratch.emplace(static_cast<std::size_t>(3 * call.V));
    float *const x = scratch ? scratch->data() : few, *const g = x + call.V, *weight = nullptr;
    if (call.weight.data) {
      weight = g + call.V;
      common::load_row(call.weight.data, call.weight.dtype, 0, call.weight.head, call.V, weight);
    }
    for (std::int64_t row = task * together; row < std::min(rows, (task + 1) * together); ++row)
      normalise_row(call, row, weight, x, g);
  });
}

}  // namespace fla
