#include "tests/backends/intracard_cp/refusals.h"

#include <utility>

namespace fla_test {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;

namespace {

constexpr std::int64_t kTokens = 4096;

/// What is said of batches that lie so many elements apart.
std::string batches_reason(const std::string& name, std::int64_t wanted, std::int64_t apart) {
  return "requires batches of " + name + " one after another, " + std::to_string(wanted) +
         " elements apart, got " + std::to_string(apart);
}

/// Room between the batches of one argument, whose tokens have so many elements.
Refusal batches_apart(const char* test, const char* name, TensorView KdaArgs::*member, std::int64_t token) {
  const std::int64_t wanted = kTokens * token;
  return strided(test, member, 0, wanted + 8, batches_reason(name, wanted, wanted + 8));
}

}  // namespace

LongCall::LongCall() {
  resize(2, kTokens, 4);
  args.initial_state = tensor({5, 4, 128, 128});
  args.final_state = tensor({5, 4, 128, 128});
  args.state_indices = tensor({2}, DType::i32);
  args.out = tensor({2, kTokens, 4, 128}, DType::bf16);
}

NormalizedCall::NormalizedCall() {
  args = {.q = tensor({1, kTokens, 2, 64}),
          .k = tensor({1, kTokens, 2, 64}),
          .v = tensor({1, kTokens, 2, 64}),
          .normalize = true};
}

PairCall::PairCall(TensorView fla::DplrDeltaRuleArgs::*spoilt) {
  args = {.q = tensor({2, kTokens, 2, 64}),
          .k = tensor({2, kTokens, 2, 64}),
          .v = tensor({2, kTokens, 2, 64}),
          .a = tensor({2, kTokens, 2, 64}),
          .b = tensor({2, kTokens, 2, 64}),
          .g = tensor({2, kTokens, 2, 64})};
  args.*spoilt = strided(args.*spoilt, 0, kTokens * 2 * 64 + 64);
}

std::string PairCall::reason(const std::string& name) {
  return batches_reason(name, kTokens * 2 * 64, kTokens * 2 * 64 + 64);
}

std::vector<Refusal> refusals_of_long_calls(int multiprocessors) {
  const std::int64_t most = 2 * multiprocessors / 4;
  const std::string blocks =
      "requires at most " + std::to_string(most) + " blocks of 32 values in all heads of all sequences, got ";
  return {
      {"CpuTensors",
       [](ChunkCall& call) {
         call.index_on_host();
         call.put_on({});
       },
       "requires CUDA tensors, got cpu"},
      with_checkpoints(),
      resized("ManyHeads", 1, 8 * kTokens, 2 * most, 64, 32, blocks + std::to_string(2 * most)),
      resized("ManyValues", 1, 8 * kTokens, 2 * most, 64, 33, blocks + std::to_string(4 * most)),
      resized("ManyBatches", 2 * most, kTokens, 2, 64, 32, blocks + std::to_string(4 * most)),
      {"ManySequences",
       [most](ChunkCall& call) {
         call.resize(1, kTokens * most, 2, 64, 32);
         call.args.cu_seqlens = call.tensor({most + 1}, DType::i64);
       },
       blocks + std::to_string(2 * most)},
      resized("ShortBatches", 2, 2047, 4, 128, 128,
              "requires 2048 tokens a sequence, got 4094 in 2 sequences"),
      {"ShortSequences", [](ChunkCall& call) { call.pack(3, 3 * 2048 - 1); },
       "requires 2048 tokens a sequence, got 6143 in 3 sequences"},
      resized("NoBatches", 0, kTokens, 4, 128, 128, "requires 2048 tokens a sequence, got 0 in 0 sequences"),
      batches_apart("BatchesOfQApart", "q", &KdaArgs::q, 2 * 128),
      batches_apart("BatchesOfKApart", "k", &KdaArgs::k, 2 * 128),
      batches_apart("BatchesOfVApart", "v", &KdaArgs::v, 4 * 128),
      batches_apart("BatchesOfGApart", "g", &KdaArgs::g, 4 * 128),
      batches_apart("BatchesOfBetaApart", "beta", &KdaArgs::beta, 4),
      batches_apart("BatchesOfOutApart", "out", &KdaArgs::out, 4 * 128),
  };
}

const std::vector<Acceptance>& long_calls() {
  static const std::vector<Acceptance> all{
      {"AnOrdinaryCall", [](ChunkCall&) {}},
      {"OneBatchOfAnyStride",
       [](ChunkCall& call) {
         call.resize(1, 2048, 4);
         call.args.q = ChunkCall::strided(call.args.q, 0, 3);
       }},
      {"PackedSequences", [](ChunkCall& call) { call.pack(3, 3 * 2048); }},
      {"F32",
       [](ChunkCall& call) {
         call.resize(1, kTokens, 2, 64, 64);
         for (TensorView KdaArgs::*member : {&KdaArgs::q, &KdaArgs::k, &KdaArgs::v, &KdaArgs::g})
           call.args.*member = call.tensor({1, kTokens, 2, 64});
       }},
      {"K1AndV256", [](ChunkCall& call) { call.resize(1, kTokens, 2, 1, 256); }},
      {"K256AndV1", [](ChunkCall& call) { call.resize(1, kTokens, 2, 256, 1); }},
      {"TokensOfAFusedProjection",
       [](ChunkCall& call) {
         call.args.v = call.tensor({2, kTokens, 8, 128}, DType::bf16).slice(2, 4, 4);
       }},
      {"Bf16States",
       [](ChunkCall& call) {
         call.args.initial_state = call.args.final_state = call.tensor({5, 4, 128, 128}, DType::bf16);
       }},
  };
  return all;
}

}  // namespace fla_test
