#pragma once

#include <cstddef>
#include <cstdint>

#include "fla/core/tensor.h"
#include "fla/ops/common/stage_set.h"
#include "fla/ops/recurrence/call.h"

namespace fla::recurrence {

/// One value head of one sequence, as the original CPU kernels see it: its tokens as floats, a block at a
/// time and with the options of the call applied, its state [K][V], and where its results go.
class Head {
 public:
  /// The tokens of a block are counted from the sequence's first, so that a sequence alone and in a batch is
  /// cut in the same places.
  static constexpr std::int64_t kBlock = 64;

  struct Block {
    std::int64_t begin, count;  ///< counted from the sequence's first token
    float *q, *k, *g;           ///< [count][K]; g are log-decays, whatever kind of gate the call has
    float* v;                   ///< [count][V]
    float* beta;                ///< [count], of Rule::delta
    float *a, *b;               ///< [count][K], of Rule::low_rank
    float* divisors;            ///< [count], of a call that normalizes
  };

  /// How many floats of memory a head needs.
  static std::size_t floats(const RecurrenceCall& call);

  Head(const RecurrenceCall& call, const CallExtras& extras, const common::StageSet& stages,
       std::int64_t sequence, std::int64_t value_head, float* memory);

  const RecurrenceCall& call() const { return call_; }
  const common::StageSet& stages() const { return stages_; }
  std::int64_t tokens() const { return tokens_.end - tokens_.begin; }
  float* state() const { return S_; }
  /// The sum of all keys up to the block that was loaded last, [K], of a call that normalizes. To load a
  /// block out of turn, make it what it was before that block.
  float* keys() const { return keys_; }

  const common::Slots& slots() const { return slots_; }

  /// Reads slot slots().read of initial_state.
  void load_state() const { load_state(call_.initial_state, slots_.read, S_); }
  void store_state(const common::States& states, std::int64_t slot) const { store_state(states, slot, S_); }
  /// The head's state in other states, as [K][V]; zeros where there are none.
  void load_state(const common::States& states, std::int64_t slot, float* to) const;
  void store_state(const common::States& states, std::int64_t slot, const float* from) const;

  /// Tokens [begin, begin + most), or as many as there are up to the next checkpoint; the next block takes
  /// the same memory. `most` is at most kBlock.
  Block load_block(std::int64_t begin, std::int64_t most = kBlock) const;

  /// A block's rows of a tensor that the call does not have, as floats.
  void load_rows(const common::Rows& rows, std::int64_t head, const Block& block, std::int64_t channels,
                 float* to) const;

  /// Keeps the state after so many tokens where a checkpoint is due.
  void store_checkpoint(std::int64_t tokens) const { store_checkpoint(extras_.checkpoints, tokens, S_); }
  void store_checkpoint(const Checkpoints& checkpoints, std::int64_t tokens, const float* from) const;

  /// Whether the call wants outputs, or states alone.
  bool has_outputs() const { return call_.o.data != nullptr; }
  /// Token i of a block; `row` may be changed.
  void store_output(const Block& block, std::int64_t i, float* row) const;

  /// What a sequence that is skipped has for outputs.
  void store_zeros() const;

  std::int64_t key_head() const { return key_head_; }
  std::int64_t value_head() const { return value_head_; }
  /// Where a token's channels begin; tokens are counted from the sequence's first.
  std::int64_t offset(const common::Rows& rows, std::int64_t head, std::int64_t token) const;

 private:
  /// Tokens of one head, for a stage: [1, count, 1, channels].
  TensorView view_of(const common::Rows& rows, std::int64_t head, const Block& block,
                     std::int64_t channels) const;
  void load_gates(const Block& block) const;
  void load_divisors(const Block& block) const;

  const RecurrenceCall& call_;
  const CallExtras& extras_;
  const common::StageSet& stages_;
  std::int64_t sequence_;
  Sequence tokens_;
  common::Slots slots_;
  std::int64_t value_head_, key_head_;
  float* S_;
  float* keys_;  ///< [K], the sum of all keys up to the last block, of a call that normalizes
  Block memory_;
};

/// Advances a head's state over all its tokens and stores its outputs; `memory` is room of its own.
using HeadKernel = void (*)(const Head& head, float* memory);

/// Runs the kernel for every sequence that is not skipped and value head of a call, in parallel, each with
/// room for `floats`.
void for_each_head(const RecurrenceCall& call, const CallExtras& extras, std::size_t floats,
                   HeadKernel kernel);

}  // namespace fla::recurrence
