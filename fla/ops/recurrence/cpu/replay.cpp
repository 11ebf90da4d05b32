#include <algorithm>
#include <cmath>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/dispatch/call/thread_state.h"
#include "fla/ops/common/norm.h"
#include "fla/ops/common/rows.h"
#include "fla/ops/recurrence/cpu/head.h"
#include "fla/ops/recurrence/cpu/kernels.h"
#include "fla/ops/recurrence/cpu/step.h"
#include "fla/ops/recurrence/work.h"

namespace fla::recurrence {
namespace {

using common::Rows;

std::int64_t row_of(const Rows& rows, std::int64_t batch, std::int64_t token, std::int64_t head) {
  return batch * rows.batch + token * rows.token + head * rows.head;
}

/// One value head of a sequence, and its slot's ring.
class RingHead {
 public:
  static std::size_t floats(const ReplayCall& replay) {
    const auto K = static_cast<std::size_t>(replay.call.K), V = static_cast<std::size_t>(replay.call.V);
    return Head::floats(replay.call) + Head::floats(replay.ring) +
           static_cast<std::size_t>(replay.ring.T) * (K + V) + K + 2 * V;
  }

  RingHead(const ReplayCall& replay, const common::StageSet& stages, const Ring& ring, std::int64_t sequence,
           std::int64_t value_head, float* memory)
      : replay_(replay),
        call_(replay.call),
        ring_(ring),
        sequence_(sequence),
        value_head_(value_head),
        key_head_(value_head / call_.group),
        extras_{.pair = replay.pair},
        tokens_(call_, extras_, stages, sequence, value_head, memory),
        places_(replay.ring, none_, stages, ring.slot, value_head, memory + Head::floats(call_)),
        b_(memory + Head::floats(call_) + Head::floats(replay.ring)),
        w_(b_ + replay.ring.T * call_.K),
        u_(w_ + replay.ring.T * call_.V),
        o_(u_ + call_.V),
        key_(o_ + call_.V) {}

  template <Rule rule>
  void run() const {
    tokens_.load_state();
    for (int i = 0; i < ring_.count;) i += static_cast<int>(replay<rule>(i));
    if (ring_.fold) tokens_.store_state(call_.final_state, ring_.slot);
    if (call_.T > 0) step<rule>();
  }

 private:
  /// Brings the state up to some of the ring's tokens, from number i on; returns how many.
  template <Rule rule>
  std::int64_t replay(int i) const {
    const std::int64_t K = call_.K, V = call_.V;
    float* const S = tokens_.state();
    const Head::Block block = places_.load_block(ring_.place(i), ring_.count - i);
    if constexpr (rule == Rule::low_rank) {
      places_.load_rows(replay_.ring_b, key_head_, block, K, b_);
      places_.load_rows(replay_.ring_w, value_head_, block, V, w_);
    }
    for (std::int64_t t = 0; t < block.count; ++t) {
      for (std::int64_t c = 0; c < K; ++c) {
        const float decay = std::exp(block.g[t * K + c]);
        for (std::int64_t j = 0; j < V; ++j) S[c * V + j] *= decay;
      }
      if constexpr (rule == Rule::low_rank) add_outer(K, V, b_ + t * K, w_ + t * V, S);
      add_outer(K, V, block.k + t * K, block.v + t * V, S);
    }
    return block.count;
  }

  template <Rule rule>
  void step() const {
    const std::int64_t K = call_.K, V = call_.V;
    const Head::Block block = tokens_.load_block(0);
    for (std::int64_t t = 0; t < block.count; ++t) {
      Token token{block.q + t * K, block.k + t * K, block.v + t * V, block.g + t * K, block.beta[t]};
      if constexpr (rule == Rule::low_rank) token.a = block.a + t * K, token.b = block.b + t * K;
      recurrent_step<rule>(K, V, token, call_.scale, tokens_.state(), u_, o_);
      tokens_.store_output(block, t, o_);
      append<rule>(t, token);
    }
  }

  /// u_ is the step's. A key head's rows are those of its first value head.
  template <Rule rule>
  void append(std::int64_t t, const Token& token) const {
    const std::int64_t K = call_.K, place = ring_.place(ring_.count + static_cast<int>(t));
    const RecurrenceCall& ring = replay_.ring;
    if (value_head_ % call_.group == 0) {
      copy_row(call_.k, t, key_head_, ring.k, place, K);
      if constexpr (rule == Rule::low_rank) copy_row(replay_.pair.b, t, key_head_, replay_.ring_b, place, K);
    }
    if (call_.g.data && call_.gate_kind != GateKind::head)
      copy_row(call_.g, t, value_head_, ring.g, place, call_.gate_kind == GateKind::channel ? K : 1);
    if constexpr (rule == Rule::low_rank) {
      store_row(replay_.ring_w, place, u_);
      store_row(ring.v, place, token.v);
    } else if constexpr (rule == Rule::additive) {
      store_row(ring.v, place, token.v);
    } else {
      const float factor = key_factor(t);
      for (std::int64_t j = 0; j < call_.V; ++j) u_[j] *= factor;
      store_row(ring.v, place, u_);
    }
  }

  /// What a key is multiplied with before it meets the state: u has it in the ring.
  float key_factor(std::int64_t t) const {
    if (!call_.l2norm) return 1;
    const Rows& k = call_.k;
    common::load_row(k.data, k.dtype, row_of(k, sequence_, t, key_head_), k.channel, call_.K, key_);
    return common::l2_factor(key_, call_.K);
  }

  void store_row(const Rows& rows, std::int64_t place, const float* row) const {
    common::store_row(rows.data, rows.dtype, row_of(rows, ring_.slot, place, value_head_), rows.channel,
                      call_.V, row);
  }

  /// Both are of one dtype.
  void copy_row(const Rows& from, std::int64_t t, std::int64_t head, const Rows& to, std::int64_t place,
                std::int64_t channels) const {
    common::with_float_type(from.dtype, [&]<class T>(T*) {
      const T* source = static_cast<const T*>(from.data) + row_of(from, sequence_, t, head);
      T* target = static_cast<T*>(to.data) + row_of(to, ring_.slot, place, head);
      for (std::int64_t c = 0; c < channels; ++c) target[c * to.channel] = source[c * from.channel];
    });
  }

  const ReplayCall& replay_;
  const RecurrenceCall& call_;
  Ring ring_;
  std::int64_t sequence_, value_head_, key_head_;
  CallExtras extras_, none_{};
  Head tokens_, places_;
  float *b_, *w_, *u_, *o_, *key_;
};

/// A ring is half full in the mean.
int threads_for_replay(const ReplayCall& replay) {
  RecurrenceCall all = replay.call;
  all.T += replay.ring.T / 2;
  return threads_for(all);
}

}  // namespace

void replay_on_cpu(const ReplayCall& replay) {
  const dispatch::InsideOriginal originals;  // a stage that failed would leave some of the rings appended
  const common::StageSet stages = common::StageSet::current();
  const std::int64_t HV = replay.call.HV;
  parallel_for(replay.call.N * HV, threads_for_replay(replay), [&](std::int64_t task, int) {
    const std::int64_t sequence = task / HV, value_head = task % HV;
    const HeldScratch memory(RingHead::floats(replay));
    const Ring ring = ring_of(replay, sequence);
    if (ring.slot < 0) {
      const CallExtras none;
      return Head(replay.call, none, stages, sequence, value_head, memory.data()).store_zeros();
    }
    const RingHead head(replay, stages, ring, sequence, value_head, memory.data());
    switch (replay.call.rule) {
      case Rule::delta: return head.run<Rule::delta>();
      case Rule::additive: return head.run<Rule::additive>();
      case Rule::low_rank: return head.run<Rule::low_rank>();
    }
  });
}

}  // namespace fla::recurrence
