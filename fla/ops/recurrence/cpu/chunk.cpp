#include "fla/ops/recurrence/cpu/chunk.h"

#include "fla/ops/recurrence/cpu/kernels.h"

namespace fla::recurrence {
namespace {

template <Rule rule>
void run_chunks(const Head& head, float* scratch) {
  const ChunkMemory memory(scratch, head.call().K, head.call().V);
  for (std::int64_t begin = 0; begin < head.tokens();) {
    const Head::Block block = prepare_block<rule>(head, memory, begin);
    for (std::int64_t first = 0; first < block.count; first += kChunk) {
      const Chunk<rule> chunk(head, block, memory, first);
      head.has_outputs() ? chunk.advance() : chunk.advance_state();
    }
    begin += block.count;
    head.store_checkpoint(begin);
  }
}

}  // namespace

void chunk_on_cpu(const RecurrenceCall& call, const CallExtras& extras) {
  if (call.rule == Rule::low_rank) return recurrent_on_cpu(call, extras);
  for_each_head(call, extras, ChunkMemory::floats(call.K, call.V),
                call.rule == Rule::delta ? run_chunks<Rule::delta> : run_chunks<Rule::additive>);
}

}  // namespace fla::recurrence
