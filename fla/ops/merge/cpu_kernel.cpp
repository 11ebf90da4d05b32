#include "fla/ops/merge/cpu_kernel.h"

#include <algorithm>
#include <utility>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/ops/common/rank_update.h"
#include "fla/ops/common/rows.h"

namespace fla {
namespace {

using common::load_row;
using common::store_row;

/// next = P state + R, states as [K][V]; `row` is room for K floats.
void apply(const MergeCall& call, const float* P, const float* R, const float* state, float* next,
           float* row) {
  const std::int64_t K = call.K, V = call.V;
  for (std::int64_t i = 0; i < K; ++i) {
    load_row(R + i * call.R_key, DType::f32, 0, call.R_value, V, next + i * V);
    if (call.diagonal) {
      common::add_rows(1, V, P + i * call.P_row, 1, state + i * V, next + i * V);
    } else {
      load_row(P + i * call.P_row, DType::f32, 0, call.P_column, K, row);
      common::add_rows(K, V, row, 1, state, next + i * V);
    }
  }
}

void merge_head(const MergeCall& call, std::int64_t n, std::int64_t head) {
  const std::int64_t K = call.K, V = call.V;
  const HeldScratch memory(static_cast<std::size_t>(2 * K * V + K));
  float *state = memory.data(), *next = state + K * V, *const row = next + K * V;
  const common::States &from = call.initial_state, &to = call.final_state;
  if (from.data) {
    for (std::int64_t i = 0; i < K; ++i)
      load_row(from.data, from.dtype, from.offset(n, head) + i * from.key, from.value, V, state + i * V);
  } else {
    std::fill_n(state, K * V, 0.0f);
  }
  for (std::int64_t c = 0; c < call.C; ++c) {
    apply(call, call.P_at(c, n, head), call.R_at(c, n, head), state, next, row);
    std::swap(state, next);
  }
  for (std::int64_t i = 0; i < K; ++i)
    store_row(to.data, to.dtype, to.offset(n, head) + i * to.key, to.value, V, state + i * V);
}

}  // namespace

void merge_on_cpu(const MergeCall& call) {
  const double heads = static_cast<double>(call.N) * call.HV;
  const int threads = threads_worth(2.0 * static_cast<double>(call.C) * heads * call.K * call.V *
                                    (call.diagonal ? 1 : call.K));
  parallel_for(call.N * call.HV, threads,
               [&](std::int64_t task, int) { merge_head(call, task / call.HV, task % call.HV); });
}

}  // namespace fla
