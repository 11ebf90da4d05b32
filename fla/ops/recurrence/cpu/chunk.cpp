#include "fla/ops/recurrence/cpu/chunk.h"

#include "fla/ops/recurrence/cpu/kernels.h"

namespace fla::recurrence {
namespace {

template <Rule rule>
void run_chunks(const Head& head, float* scratch) {
  const ChunkMemory memory(scratch, head.call().K, head.call().V);
  for (std::int64_t begin = 0; begin < head.tokens(); begin += Head::kBlock) {
    const Head::Block block = prepare_block<rule>(head, memory, begin);
    for (std::int64_t first = 0; first < block.count; first += kChunk)
      Chunk<rule>(head, block, memory, first).advance();
  }
}

}  // namespace

void chunk_on_cpu(const RecurrenceCall& call, const LowRankPair& pair) {
  if (call.rule == Rule::low_rank) return recurrent_on_cpu(call, pair);
  for_each_head(call, pair, ChunkMemory::floats(call.K, call.V),
                call.rule == Rule::delta ? run_chunks<Rule::delta> : run_chunks<Rule::additive>);
}

}  // namespace fla::recurrence
