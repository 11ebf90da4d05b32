#include "fla/ops/recurrence/cpu/head.h"

#include <algorithm>
#include <array>
#include <optional>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/ops/common/gate.h"
#include "fla/ops/common/rows.h"
#include "fla/ops/recurrence/work.h"

namespace fla::recurrence {
namespace {

using common::load_row;
using common::Parameters;
using common::States;
using common::store_row;

TensorView floats_of(float* rows, std::int64_t count, std::int64_t width) {
  return {rows, DType::f32, {1, count, 1, width}};
}

/// Those of one head: [1], or [1, channels].
TensorView parameters_of(const Parameters& parameters, std::int64_t head, std::int64_t channels) {
  if (!parameters.data) return {};
  const auto* const data = static_cast<const std::byte*>(parameters.data) +
                           head * parameters.head * static_cast<std::int64_t>(size_of(parameters.dtype));
  if (channels == 0) return {data, parameters.dtype, {1}};
  return {data, parameters.dtype, std::array<std::int64_t, 2>{1, channels},
          std::array{parameters.head, parameters.channel}};
}

/// Row i of a head's state [K][V], whichever layout the pool has: body(offset, stride, i).
template <class Body>
void for_rows(const RecurrenceCall& call, const States& states, std::int64_t slot, std::int64_t head,
              Body&& body) {
  for (std::int64_t i = 0; i < call.K; ++i) body(states.offset(slot, head) + i * states.key, states.value, i);
}

/// States that are kept apart until a call is done, [N][1 + C][HV][K][V]: each sequence's last, and before it
/// its checkpoints where those go into the pool.
class StatesApart {
 public:
  StatesApart(const RecurrenceCall& call, const CallExtras& extras)
      : call_(call),
        every_(extras.checkpoints.every),
        checkpoints_(extras.checkpoints.slots.first.data ? extras.checkpoints.count : 0),
        memory_(Tensor::empty({call.N, checkpoints_ + 1, call.HV, call.K, call.V}, DType::f32)) {}

  float* of(std::int64_t sequence, std::int64_t i, std::int64_t head) const {
    const std::int64_t size = std::int64_t{call_.K} * call_.V;
    return memory_.as<float>() + ((sequence * (checkpoints_ + 1) + i) * call_.HV + head) * size;
  }
  float* last(std::int64_t sequence, std::int64_t head) const { return of(sequence, checkpoints_, head); }

  /// Where a head's last state goes …
  States last_states(std::int64_t sequence) const { return states(last(sequence, 0)); }

  /// … and its checkpoints.
  Checkpoints checkpoints(const Checkpoints& given) const {
    if (checkpoints_ == 0) return given;
    const std::int64_t sequence = (checkpoints_ + 1) * call_.HV * call_.K * call_.V;
    return {.states = states(memory_.as<float>()),
            .sequence = sequence * std::int64_t{sizeof(float)},
            .every = every_,
            .count = checkpoints_};
  }

  /// Brings a head's states to where they belong.
  void store(const Head& head, std::int64_t sequence, const Checkpoints& checkpoints) const {
    const std::int64_t value_head = head.value_head();
    for (std::int64_t i = 0; i < checkpoints_; ++i) {
      if ((i + 1) * every_ <= head.tokens())
        head.store_checkpoint(checkpoints, (i + 1) * every_, of(sequence, i, value_head));
    }
    if (head.slots().write >= 0)
      head.store_state(call_.final_state, head.slots().write, last(sequence, value_head));
  }

 private:
  States states(float* data) const {
    const std::int64_t K = call_.K, V = call_.V;
    return {.data = data,
            .slots = checkpoints_ + 1,
            .slot = call_.HV * K * V,
            .head = K * V,
            .key = V,
            .value = 1};
  }

  const RecurrenceCall& call_;
  std::int64_t every_, checkpoints_;
  Tensor memory_;
};

}  // namespace

std::size_t Head::floats(const RecurrenceCall& call) {
  const std::int64_t K = call.K, V = call.V, pair = call.rule == Rule::low_rank ? 2 * K : 0;
  return static_cast<std::size_t>(K * V + kBlock * (3 * K + V + 1 + pair) +
                                  (call.normalize ? K + kBlock : 0));
}

Head::Head(const RecurrenceCall& call, const CallExtras& extras, const common::StageSet& stages,
           std::int64_t sequence, std::int64_t value_head, float* memory)
    : call_(call),
      extras_(extras),
      stages_(stages),
      sequence_(sequence),
      tokens_(sequence_of(call, sequence)),
      slots_(slots_of(call, extras.accepted, sequence)),
      value_head_(value_head),
      key_head_(value_head / call.group),
      S_(memory),
      keys_(nullptr),
      memory_{} {
  const std::int64_t K = call.K, V = call.V;
  memory_.q = S_ + K * V;
  memory_.k = memory_.q + kBlock * K;
  memory_.g = memory_.k + kBlock * K;
  memory_.v = memory_.g + kBlock * K;
  memory_.beta = memory_.v + kBlock * V;
  float* next = memory_.beta + kBlock;
  if (call.rule == Rule::low_rank) {
    memory_.a = next;
    memory_.b = memory_.a + kBlock * K;
    next = memory_.b + kBlock * K;
  }
  if (call.normalize) {
    memory_.divisors = next;
    keys_ = memory_.divisors + kBlock;
    std::fill_n(keys_, K, 0.0f);
  }
}

std::int64_t Head::offset(const common::Rows& rows, std::int64_t head, std::int64_t token) const {
  return tokens_.batch * rows.batch + (tokens_.begin + token) * rows.token + head * rows.head;
}

void Head::load_rows(const common::Rows& rows, std::int64_t head, const Block& block, std::int64_t channels,
                     float* to) const {
  for (std::int64_t t = 0; t < block.count; ++t) {
    load_row(rows.data, rows.dtype, offset(rows, head, block.begin + t), rows.channel, channels,
             to + t * channels);
  }
}

TensorView Head::view_of(const common::Rows& rows, std::int64_t head, const Block& block,
                         std::int64_t channels) const {
  const std::int64_t first = offset(rows, head, block.begin);
  return {static_cast<std::byte*>(rows.data) + first * static_cast<std::int64_t>(size_of(rows.dtype)),
          rows.dtype, std::array<std::int64_t, 4>{1, block.count, 1, channels},
          std::array{rows.batch, rows.token, rows.head, rows.channel}};
}

void Head::load_gates(const Block& block) const {
  using common::GateInput;
  const bool by_channel = call_.gate_kind == GateKind::channel;
  const std::int64_t width = by_channel ? call_.K : 1;
  if (call_.gate_kind == GateKind::none) {
    std::fill_n(block.g, block.count, 0.0f);
  } else if (!call_.g.data) {
    std::fill_n(block.g, block.count, head_decay(call_, value_head_));
  } else if (call_.gate == GateInput::given) {
    load_rows(call_.g, value_head_, block, width, block.g);
  } else {
    GateArgs gate{.g = view_of(call_.g, value_head_, block, width)};
    if (call_.gate == GateInput::bounded) gate.lower_bound = call_.lower_bound;
    gate.A_log = parameters_of(call_.A_log, value_head_, 0);
    gate.dt_bias = parameters_of(call_.dt_bias, value_head_, width);
    gate.out = floats_of(block.g, block.count, width);
    stages_.gate(gate);
  }
  if (by_channel) return;
  // One number for all channels; backwards, for the numbers stand where the first rows go.
  for (std::int64_t t = block.count - 1; t >= 0; --t) std::fill_n(block.g + t * call_.K, call_.K, block.g[t]);
}

void Head::load_divisors(const Block& block) const {
  for (std::int64_t t = 0; t < block.count; ++t) {
    float sum = 0;
    for (std::int64_t i = 0; i < call_.K; ++i) {
      keys_[i] += block.k[t * call_.K + i];
      sum += block.q[t * call_.K + i] * keys_[i];
    }
    block.divisors[t] = call_.scale * sum + 1e-10f;
  }
}

Head::Block Head::load_block(std::int64_t begin, std::int64_t most) const {
  Block block = memory_;
  block.begin = begin;
  block.count = std::min(most, tokens() - begin);
  // A spacing of whole chunks leaves every chunk the tokens that it has without checkpoints.
  if (const std::int64_t every = extras_.checkpoints.every; every > 0)
    block.count = std::min(block.count, every - begin % every);
  const auto key_rows = [&](const common::Rows& rows, float* to) {
    if (call_.l2norm) {
      stages_.l2_norm(
          {.x = view_of(rows, key_head_, block, call_.K), .out = floats_of(to, block.count, call_.K)});
    } else {
      load_rows(rows, key_head_, block, call_.K, to);
    }
  };
  key_rows(call_.q, block.q);
  key_rows(call_.k, block.k);
  load_rows(call_.v, value_head_, block, call_.V, block.v);
  load_gates(block);
  if (call_.rule == Rule::delta) load_rows(call_.beta, value_head_, block, 1, block.beta);
  if (call_.beta_sigmoid) {
    const float factor = call_.neg_eigval ? 2.0f : 1.0f;
    for (std::int64_t t = 0; t < block.count; ++t) block.beta[t] = common::sigmoid(block.beta[t]) * factor;
  }
  if (call_.rule == Rule::low_rank) {
    load_rows(extras_.pair.a, key_head_, block, call_.K, block.a);
    load_rows(extras_.pair.b, key_head_, block, call_.K, block.b);
  }
  if (call_.normalize) load_divisors(block);
  return block;
}

void Head::store_output(const Block& block, std::int64_t i, float* row) const {
  if (call_.normalize) {
    for (std::int64_t j = 0; j < call_.V; ++j) row[j] /= block.divisors[i];
  }
  const common::Rows& o = call_.o;
  store_row(o.data, o.dtype, offset(o, value_head_, block.begin + i), o.channel, call_.V, row);
}

void Head::store_zeros() const {
  const common::Rows& o = call_.o;
  std::fill_n(memory_.v, call_.V, 0.0f);
  for (std::int64_t t = 0; t < tokens(); ++t)
    store_row(o.data, o.dtype, offset(o, value_head_, t), o.channel, call_.V, memory_.v);
}

void Head::load_state(const States& states, std::int64_t slot, float* to) const {
  if (!states.data) {
    std::fill_n(to, std::int64_t{call_.K} * call_.V, 0.0f);
    return;
  }
  for_rows(call_, states, slot, value_head_, [&](std::int64_t offset, std::int64_t stride, std::int64_t i) {
    load_row(states.data, states.dtype, offset, stride, call_.V, to + i * call_.V);
  });
}

void Head::store_state(const States& states, std::int64_t slot, const float* from) const {
  for_rows(call_, states, slot, value_head_, [&](std::int64_t offset, std::int64_t stride, std::int64_t i) {
    store_row(states.data, states.dtype, offset, stride, call_.V, from + i * call_.V);
  });
}

void Head::store_checkpoint(const Checkpoints& checkpoints, std::int64_t tokens, const float* from) const {
  if (const std::int64_t slot = checkpoints.slot_after(sequence_, tokens); slot >= 0)
    store_state(checkpoints.of(sequence_), slot, from);
}

void for_each_head(const RecurrenceCall& call, const CallExtras& given, std::size_t floats,
                   HeadKernel kernel) {
  if (call.T == 0 && !call.final_state.data) return;
  const common::StageSet stages = common::StageSet::current();
  const std::int64_t HV = call.HV;
  // Heads finish one by one: should a stage fail at a later one, the caller's state must not be half new.
  std::optional<StatesApart> apart;
  CallExtras extras = given;
  if (stages.may_fail() && call.final_state.data && call.final_state.data == call.initial_state.data) {
    apart.emplace(call, given);
    extras.checkpoints = apart->checkpoints(given.checkpoints);
  }
  parallel_for(call.N * HV, threads_for(call), [&](std::int64_t task, int) {
    const HeldScratch memory(Head::floats(call) + floats);
    const std::int64_t sequence = task / HV;
    const Head head(call, extras, stages, sequence, task % HV, memory.data());
    if (head.slots().read < 0) return head.store_zeros();
    head.load_state();
    kernel(head, memory.data() + Head::floats(call));
    if (apart) {
      head.store_state(apart->last_states(sequence), 0);
    } else if (call.final_state.data && head.slots().write >= 0) {
      head.store_state(call.final_state, head.slots().write);
    }
  });
  if (!apart) return;
  const HeldScratch memory(Head::floats(call));
  for (std::int64_t task = 0; task < call.N * HV; ++task) {
    const Head head(call, extras, stages, task / HV, task % HV, memory.data());
    if (head.slots().read >= 0) apart->store(head, task / HV, given.checkpoints);
  }
}

}  // namespace fla::recurrence
