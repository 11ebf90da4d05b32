#pragma once

#include <cstddef>
#include <cstdint>

#include "fla/ops/common/stage_set.h"
#include "fla/ops/kda/kda.h"

namespace fla {

/// One value head of one sequence, as the original CPU kernels see it: its tokens as floats, a block at a
/// time and with the options of the call applied, its state [K][V], and where its results go.
class KdaHead {
 public:
  /// The tokens of a block are counted from the sequence's first, so that a sequence alone and in a batch is
  /// cut in the same places.
  static constexpr std::int64_t kBlock = 64;

  struct Block {
    std::int64_t begin, count;  ///< counted from the sequence's first token
    float *q, *k, *g;           ///< [count][K]; g are log-decays
    float* v;                   ///< [count][V]
    float* beta;                ///< [count]
  };

  /// How many floats of memory a head needs.
  static std::size_t floats(const KdaSizes& sizes);

  KdaHead(const KdaArgs& args, const common::StageSet& stages, std::int64_t sequence, std::int64_t value_head,
          float* memory);

  const KdaArgs& args() const { return args_; }
  const common::StageSet& stages() const { return stages_; }
  const KdaSizes& sizes() const { return sizes_; }
  std::int64_t tokens() const { return tokens_.end - tokens_.begin; }
  float* state() const { return S_; }

  const StateSlots& slots() const { return slots_; }

  /// Reads slot slots().read of initial_state.
  void load_state() const;
  void store_state(const Tensor& states, std::int64_t slot) const;

  /// Tokens [begin, begin + kBlock), or as many as there are; the next block takes the same memory.
  Block load_block(std::int64_t begin) const;

  void store_output(const Tensor& o, std::int64_t token, const float* row) const;

  /// What a sequence that is skipped has for outputs.
  void store_zeros(const Tensor& o) const;

 private:
  struct Row {
    std::int64_t offset, stride;
  };
  Row state_row(const TensorView& states, std::int64_t slot, std::int64_t i) const;
  TensorView tokens_of_head(const TensorView& tensor, std::int64_t head, std::int64_t begin,
                            std::int64_t count) const;

  const KdaArgs& args_;
  const common::StageSet& stages_;
  KdaSizes sizes_;
  TokenRange tokens_;
  StateSlots slots_;
  std::int64_t value_head_, key_head_;
  float* S_;
  Block memory_;
};

/// Advances a head's state over all its tokens and stores its outputs; `memory` is room of its own.
using KdaHeadKernel = void (*)(const KdaHead& head, float* memory, const Tensor& o);

/// Runs the kernel for every sequence that is not skipped and value head of a call, in parallel, each with
/// room for `floats`.
/// What a stage throws is thrown; a state that is updated in place is then as it was. Throws InvalidArgument
/// for tensors that are not on the CPU.
KdaResult for_each_kda_head(const KdaArgs& args, std::size_t floats, KdaHeadKernel kernel);

}  // namespace fla
