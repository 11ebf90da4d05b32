#include "fla/ops/kda/kda_recurrence.h"

#include "fla/ops/common/recurrence.h"
#include "fla/ops/kda/kda_head.h"

namespace fla {
namespace {

/// memory: u o [V]
void run_tokens(const KdaHead& head, float* memory, const Tensor& out) {
  const std::int64_t K = head.sizes().K, V = head.sizes().V;
  float *u = memory, *o = memory + V;
  const float scale = scale_of(head.args());
  for (std::int64_t begin = 0; begin < head.tokens(); begin += KdaHead::kBlock) {
    const KdaHead::Block block = head.load_block(begin);
    for (std::int64_t t = 0; t < block.count; ++t) {
      const common::Token token{block.q + t * K, block.k + t * K, block.v + t * V, block.g + t * K,
                                block.beta[t]};
      common::recurrent_step<common::Gate::channel, common::Rule::delta>(K, V, token, scale, head.state(), u,
                                                                         o);
      head.store_output(out, begin + t, o);
    }
  }
}

}  // namespace

KdaResult recurrent_kda_cpu(const KdaArgs& args) {
  return for_each_kda_head(args, static_cast<std::size_t>(2 * args.v.size(3)), run_tokens);
}

}  // namespace fla
