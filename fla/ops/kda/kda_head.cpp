#include "fla/ops/kda/kda_head.h"

#include <algorithm>

#include "fla/core/errors.h"
#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/ops/common/gate.h"
#include "fla/ops/common/rows.h"

namespace fla {
namespace {

using common::load_row;
using common::store_row;

/// Rows of tokens of one head as floats.
void load_rows(const TensorView& tensor, float* rows) {
  for (std::int64_t t = 0; t < tensor.size(1); ++t) {
    load_row(tensor, t * tensor.stride(1), tensor.stride(3), tensor.size(3), rows + t * tensor.size(3));
  }
}

TensorView rows_of(float* rows, std::int64_t count, std::int64_t width) {
  return {rows, DType::f32, {1, count, 1, width}};
}

/// A state for every sequence into the slots that they write.
void copy_states(const KdaArgs& args, const Tensor& from, const Tensor& to) {
  const std::int64_t width = from.size(3);
  const HeldScratch row(static_cast<std::size_t>(width));
  const auto at = [](const Tensor& states, std::int64_t slot, std::int64_t head, std::int64_t i) {
    return slot * states.stride(0) + head * states.stride(1) + i * states.stride(2);
  };
  for (std::int64_t n = 0; n < from.size(0); ++n) {
    const std::int64_t slot = slots_of(args, n).write;
    if (slot < 0) continue;
    for (std::int64_t head = 0; head < from.size(1); ++head) {
      for (std::int64_t i = 0; i < from.size(2); ++i) {
        load_row(from, at(from, n, head, i), from.stride(3), width, row.data());
        store_row(to, at(to, slot, head, i), to.stride(3), width, row.data());
      }
    }
  }
}

}  // namespace

std::size_t KdaHead::floats(const KdaSizes& sizes) {
  return static_cast<std::size_t>(sizes.K * sizes.V + kBlock * (3 * sizes.K + sizes.V + 1));
}

KdaHead::KdaHead(const KdaArgs& args, const common::StageSet& stages, std::int64_t sequence,
                 std::int64_t value_head, float* memory)
    : args_(args),
      stages_(stages),
      sizes_(sizes_of(args)),
      tokens_(fla::tokens_of(args, sequence)),
      slots_(slots_of(args, sequence)),
      value_head_(value_head),
      key_head_(value_head / (sizes_.HV / sizes_.H)),
      S_(memory),
      memory_{} {
  memory_.q = S_ + sizes_.K * sizes_.V;
  memory_.k = memory_.q + kBlock * sizes_.K;
  memory_.g = memory_.k + kBlock * sizes_.K;
  memory_.v = memory_.g + kBlock * sizes_.K;
  memory_.beta = memory_.v + kBlock * sizes_.V;
}

TensorView KdaHead::tokens_of_head(const TensorView& tensor, std::int64_t head, std::int64_t begin,
                                   std::int64_t count) const {
  return tensor.slice(0, tokens_.batch, 1).slice(1, tokens_.begin + begin, count).slice(2, head, 1);
}

KdaHead::Block KdaHead::load_block(std::int64_t begin) const {
  Block block = memory_;
  block.begin = begin;
  block.count = std::min(kBlock, tokens() - begin);
  const auto of = [&](const TensorView& tensor, std::int64_t head) {
    return tokens_of_head(tensor, head, begin, block.count);
  };
  const auto key_rows = [&](const TensorView& tensor, float* rows) {
    if (args_.use_qk_l2norm_in_kernel) {
      stages_.l2_norm({.x = of(tensor, key_head_), .out = rows_of(rows, block.count, sizes_.K)});
    } else {
      load_rows(of(tensor, key_head_), rows);
    }
  };
  key_rows(args_.q, block.q);
  key_rows(args_.k, block.k);
  load_rows(of(args_.v, value_head_), block.v);
  if (args_.use_gate_in_kernel) {
    GateArgs gate{.g = of(args_.g, value_head_), .lower_bound = args_.lower_bound};
    if (args_.A_log.defined()) gate.A_log = args_.A_log.slice(0, value_head_, 1);
    if (const TensorView& bias = args_.dt_bias; bias.defined()) {
      const std::int64_t rows = bias.rank() == 1 ? sizes_.K : 1;
      gate.dt_bias = bias.slice(0, value_head_ * rows, rows);
    }
    gate.out = rows_of(block.g, block.count, sizes_.K);
    stages_.gate(gate);
  } else {
    load_rows(of(args_.g, value_head_), block.g);
  }
  const TensorView beta = of(args_.beta, value_head_);
  load_row(beta, 0, beta.stride(1), block.count, block.beta);
  if (args_.use_beta_sigmoid_in_kernel) {
    const float factor = args_.allow_neg_eigval ? 2.0f : 1.0f;
    for (std::int64_t t = 0; t < block.count; ++t) block.beta[t] = common::sigmoid(block.beta[t]) * factor;
  }
  return block;
}

void KdaHead::store_output(const Tensor& o, std::int64_t token, const float* row) const {
  const std::int64_t at = tokens_.batch * o.stride(0) + (tokens_.begin + token) * o.stride(1);
  store_row(o, at + value_head_ * o.stride(2), o.stride(3), sizes_.V, row);
}

void KdaHead::store_zeros(const Tensor& o) const {
  std::fill_n(memory_.v, sizes_.V, 0.0f);
  for (std::int64_t t = 0; t < tokens(); ++t) store_output(o, t, memory_.v);
}

/// Row i of the state [K][V], whichever layout the tensor has.
KdaHead::Row KdaHead::state_row(const TensorView& states, std::int64_t slot, std::int64_t i) const {
  const int key_axis = args_.state_v_first ? 3 : 2, value_axis = args_.state_v_first ? 2 : 3;
  return {slot * states.stride(0) + value_head_ * states.stride(1) + i * states.stride(key_axis),
          states.stride(value_axis)};
}

void KdaHead::load_state() const {
  if (!args_.initial_state.defined()) {
    std::fill_n(S_, sizes_.K * sizes_.V, 0.0f);
    return;
  }
  for (std::int64_t i = 0; i < sizes_.K; ++i) {
    const Row row = state_row(args_.initial_state, slots_.read, i);
    load_row(args_.initial_state, row.offset, row.stride, sizes_.V, S_ + i * sizes_.V);
  }
}

void KdaHead::store_state(const Tensor& states, std::int64_t slot) const {
  for (std::int64_t i = 0; i < sizes_.K; ++i) {
    const Row row = state_row(states, slot, i);
    store_row(states, row.offset, row.stride, sizes_.V, S_ + i * sizes_.V);
  }
}

KdaResult for_each_kda_head(const KdaArgs& args, std::size_t floats, KdaHeadKernel kernel) {
  const common::StageSet stages = common::StageSet::current();
  const KdaSizes sizes = sizes_of(args);
  KdaResult result = make_result(args);
  if (result.o.numel() == 0 && result.final_state.numel() == 0) return result;
  // Heads finish one by one: should a stage fail at a later one, the caller's state must not be half new.
  const bool apart = stages.may_fail() && args.final_state.defined() && args.initial_state.defined() &&
                     args.final_state.data() == args.initial_state.data();
  Tensor states = result.final_state;
  if (apart) {
    states = Tensor::empty({sizes.N, sizes.HV, result.final_state.size(2), result.final_state.size(3)},
                           result.final_state.dtype());
  }
  parallel_for(sizes.N * sizes.HV, [&](std::int64_t task, int) {
    const HeldScratch memory(KdaHead::floats(sizes) + floats);
    const std::int64_t sequence = task / sizes.HV;
    const KdaHead head(args, stages, sequence, task % sizes.HV, memory.data());
    if (head.slots().read < 0) return head.store_zeros(result.o);
    head.load_state();
    kernel(head, memory.data() + KdaHead::floats(sizes), result.o);
    if (states.defined() && head.slots().write >= 0)
      head.store_state(states, apart ? sequence : head.slots().write);
  });
  if (apart) copy_states(args, states, result.final_state);
  return result;
}

}  // namespace fla
