#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fla/ops/kda/kda.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

namespace fla_test {

/// One sequence of a call by itself: its tokens, the state that it starts from, no indices, no outputs given.
inline fla::KdaArgs sequence_alone(const fla::KdaArgs& args, std::int64_t n) {
  fla::KdaArgs one = args;
  const fla::Sequence tokens = fla::tokens_of(args, n);
  for (fla::TensorView* tensor : {&one.q, &one.k, &one.v, &one.g, &one.beta})
    *tensor = tensor->slice(0, tokens.batch, 1).slice(1, tokens.begin, tokens.end - tokens.begin);
  if (one.initial_state.defined())
    one.initial_state = one.initial_state.slice(0, fla::slots_of(args, n).read, 1);
  one.cu_seqlens = one.state_indices = one.state_write_indices = one.out = one.final_state = {};
  return one;
}

/// Runs a call whose states are in a pool and expects of every sequence the bits that it has alone, zeros for
/// those that are skipped, and the other slots as they were. Tokens of skipped sequences are spoiled first.
/// The call's states are copied: with `in_place` initial_state is updated, otherwise final_state is what the
/// call says.
inline void expect_bits_of_sequences_alone(fla::KdaResult (*run)(const fla::KdaArgs&),
                                           const fla::KdaArgs& call, bool in_place) {
  using fla::conformance::bytes_of;
  using fla::conformance::LaidOut;
  fla::KdaArgs args = call;
  const std::int64_t N = fla::sizes_of(args).N;
  std::vector<LaidOut> pools;
  if (args.initial_state.defined()) {
    pools.push_back(LaidOut::copy_of(args.initial_state));
    args.initial_state = pools.back().view();
  }
  const std::size_t inputs = pools.size();
  if (in_place) {
    args.final_state = args.initial_state;
  } else if (args.final_state.defined()) {
    pools.push_back(LaidOut::copy_of(args.final_state));
    args.final_state = pools.back().view();
  }
  for (LaidOut& pool : pools) pool.remember();
  const LaidOut out(args.v.shape(), args.v.dtype());
  args.out = out;
  for (std::int64_t n = 0; n < N; ++n) {
    if (fla::slots_of(args, n).read >= 0) continue;
    const fla::Sequence tokens = fla::tokens_of(args, n);
    for (const fla::TensorView& tensor : {args.q, args.k, args.v, args.g, args.beta}) {
      const fla::TensorView its =
          tensor.slice(0, tokens.batch, 1).slice(1, tokens.begin, tokens.end - tokens.begin);
      std::memset(its.data(), 0xff, static_cast<std::size_t>(its.numel()) * fla::size_of(its.dtype()));
    }
  }

  std::vector<std::vector<std::byte>> states(
      static_cast<std::size_t>(args.final_state.defined() ? args.final_state.size(0) : 0));
  for (std::size_t slot = 0; slot < states.size(); ++slot)
    states[slot] = bytes_of(args.final_state.slice(0, static_cast<std::int64_t>(slot), 1));
  std::vector<std::vector<std::byte>> outputs;
  for (std::int64_t n = 0; n < N; ++n) {
    const auto [read, write] = fla::slots_of(args, n);
    const fla::Sequence tokens = fla::tokens_of(args, n);
    if (read < 0) {
      const auto elements = (tokens.end - tokens.begin) * args.v.size(2) * args.v.size(3);
      outputs.emplace_back(static_cast<std::size_t>(elements) * fla::size_of(args.v.dtype()), std::byte{0});
      continue;
    }
    fla::KdaArgs one = sequence_alone(args, n);
    fla::Tensor state;
    if (args.final_state.defined()) {
      const fla::TensorView like = args.final_state.slice(0, 0, 1);
      state = fla::Tensor::empty(like.shape(), like.dtype());
      one.final_state = state;
    }
    const fla::KdaResult alone = run(one);
    outputs.push_back(bytes_of(alone.o));
    if (!states.empty() && write >= 0) states[static_cast<std::size_t>(write)] = bytes_of(alone.final_state);
  }

  const fla::KdaResult result = run(args);
  EXPECT_EQ(result.o.data(), args.out.data());
  EXPECT_EQ(result.final_state.defined(), args.final_state.defined());
  if (args.final_state.defined()) {
    EXPECT_EQ(result.final_state.data(), args.final_state.data());
  }
  for (std::int64_t n = 0; n < N; ++n) {
    const fla::Sequence tokens = fla::tokens_of(args, n);
    EXPECT_EQ(
        bytes_of(out.view().slice(0, tokens.batch, 1).slice(1, tokens.begin, tokens.end - tokens.begin)),
        outputs[static_cast<std::size_t>(n)])
        << "o of sequence " << n << " " << fla::conformance::describe(args);
  }
  for (std::size_t slot = 0; slot < states.size(); ++slot) {
    EXPECT_EQ(bytes_of(args.final_state.slice(0, static_cast<std::int64_t>(slot), 1)), states[slot])
        << "slot " << slot << " " << fla::conformance::describe(args);
  }
  EXPECT_TRUE(out.intact_around());
  for (std::size_t i = 0; i < pools.size(); ++i) {
    EXPECT_TRUE(pools[i].intact_around());
    if (i < inputs && !in_place) {
      EXPECT_TRUE(pools[i].intact()) << "initial_state was written";
    }
  }
}

}  // namespace fla_test
