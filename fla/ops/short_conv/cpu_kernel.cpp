#include "fla/ops/short_conv/cpu_kernel.h"

#include <algorithm>

#include "fla/core/threads.h"
#include "fla/ops/common/gate.h"
#include "fla/ops/common/rows.h"

/// A task is a block of channels of one sequence, token by token:
///
///     inputs[s % W]    the row of the s-th input, s counting from the W - 1 that stand in the state
///     factors[j]       weight[:, j] of the block's channels
///
/// It reads all of its first state before it writes its last one, which may be the same memory.
namespace fla {
namespace {

constexpr int kBlock = 64;  // channels: a cache line of f32 is a fourth of it

struct ChannelRow {
  alignas(64) float at[kBlock] = {};
};

template <int W>
class ChannelBlock {
 public:
  ChannelBlock(const ShortConvCall& call, std::int64_t first)
      : call_(call), first_(first), count_(std::min<std::int64_t>(kBlock, call.D - first)) {
    for (int j = 0; j < W; ++j)
      load(call.weight.data, call.weight.dtype, first * call.weight.head + j * call.weight.channel,
           call.weight.head, factors_[j]);
    if (call.bias.data) load(call.bias.data, call.bias.dtype, first * call.bias.head, call.bias.head, bias_);
  }

  void run(std::int64_t n) {
    const Sequence tokens = sequence_of(call_, n);
    const common::Slots slots = common::slots_of(call_, n);
    if (slots.read < 0) return call_.o.data ? clear(tokens) : void();
    load_state(slots.read);
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      const std::int64_t s = t - tokens.begin + W - 1;
      load(call_.x.data, call_.x.dtype, row_at(call_.x, tokens.batch, t), call_.x.channel, inputs_[s % W]);
      if (call_.o.data)
        store(call_.o.data, call_.o.dtype, row_at(call_.o, tokens.batch, t), call_.o.channel, output(s));
    }
    if (slots.write >= 0) store_state(slots.write, tokens.end - tokens.begin);
  }

 private:
  std::int64_t row_at(const common::Rows& rows, std::int64_t batch, std::int64_t token) const {
    return batch * rows.batch + token * rows.token + first_ * rows.channel;
  }
  void load(const void* data, DType dtype, std::int64_t at, std::int64_t stride, ChannelRow& row) const {
    common::load_row(data, dtype, at, stride, count_, row.at);
  }
  void store(void* data, DType dtype, std::int64_t at, std::int64_t stride, const ChannelRow& row) const {
    common::store_row(data, dtype, at, stride, count_, row.at);
  }

  /// From the s-th input and those before it.
  ChannelRow output(std::int64_t s) const {
    ChannelRow sum = bias_;
    for (int j = 0; j < W; ++j) {
      const ChannelRow &factor = factors_[j], &input = inputs_[(s + 1 + j) % W];
      for (int c = 0; c < kBlock; ++c) sum.at[c] += factor.at[c] * input.at[c];
    }
    if (call_.silu) {
      for (std::int64_t c = 0; c < count_; ++c) sum.at[c] *= common::sigmoid(sum.at[c]);
    }
    return sum;
  }

  void load_state(std::int64_t slot) {
    const common::States& pool = call_.initial_state;
    for (int i = 0; i < W - 1; ++i) {
      inputs_[i] = {};
      if (pool.data)
        load(pool.data, pool.dtype, slot * pool.slot + first_ * pool.key + i * pool.value, pool.key,
             inputs_[i]);
    }
  }
  void store_state(std::int64_t slot, std::int64_t tokens) const {
    const common::States& pool = call_.final_state;
    for (int i = 0; i < W - 1; ++i) {
      store(pool.data, pool.dtype, slot * pool.slot + first_ * pool.key + i * pool.value, pool.key,
            inputs_[(tokens + i) % W]);
    }
  }

  void clear(const Sequence& tokens) const {
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t)
      store(call_.o.data, call_.o.dtype, row_at(call_.o, tokens.batch, t), call_.o.channel, ChannelRow{});
  }

  const ShortConvCall& call_;
  std::int64_t first_, count_;
  ChannelRow factors_[W], inputs_[W], bias_;
};

template <int W>
void run(const ShortConvCall& call) {
  const std::int64_t blocks = (call.D + kBlock - 1) / kBlock;
  const std::int64_t tokens = call.cu_seqlens.data ? call.T : call.T * call.N;
  // Multiplications and conversions; an exponential takes as long as about 15 of them.
  const double operations = static_cast<double>((tokens + call.N) * call.D) * (2 * W + (call.silu ? 20 : 5));
  parallel_for(call.N * blocks, threads_worth(operations), [&](std::int64_t task, int) {
    ChannelBlock<W>(call, task % blocks * kBlock).run(task / blocks);
  });
}

}  // namespace

void short_conv_on_cpu(const ShortConvCall& call) {
  switch (call.W) {
    case 2: return run<2>(call);
    case 3: return run<3>(call);
    default: return run<4>(call);
  }
}

}  // namespace fla
