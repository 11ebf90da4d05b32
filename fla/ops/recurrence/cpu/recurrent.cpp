#include "fla/ops/recurrence/cpu/head.h"
#include "fla/ops/recurrence/cpu/kernels.h"
#include "fla/ops/recurrence/cpu/step.h"

namespace fla::recurrence {
namespace {

/// memory: u o [V]
template <Rule rule>
void run_tokens(const Head& head, float* memory) {
  const RecurrenceCall& call = head.call();
  const std::int64_t K = call.K, V = call.V;
  float *u = memory, *o = memory + V;
  for (std::int64_t begin = 0; begin < head.tokens();) {
    const Head::Block block = head.load_block(begin);
    for (std::int64_t t = 0; t < block.count; ++t) {
      Token token{block.q + t * K, block.k + t * K, block.v + t * V, block.g + t * K, block.beta[t]};
      if constexpr (rule == Rule::low_rank) token.a = block.a + t * K, token.b = block.b + t * K;
      recurrent_step<rule>(K, V, token, call.scale, head.state(), u, o);
      if (head.has_outputs()) head.store_output(block, t, o);
    }
    begin += block.count;
    head.store_checkpoint(begin);
  }
}

}  // namespace

void recurrent_on_cpu(const RecurrenceCall& call, const CallExtras& extras) {
  for_each_head(call, extras, 2 * static_cast<std::size_t>(call.V),
                call.rule == Rule::delta      ? run_tokens<Rule::delta>
                : call.rule == Rule::additive ? run_tokens<Rule::additive>
                                              : run_tokens<Rule::low_rank>);
}

}  // namespace fla::recurrence
