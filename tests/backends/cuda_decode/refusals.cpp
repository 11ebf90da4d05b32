#include "tests/backends/cuda_decode/refusals.h"

#include <cstdint>
#include <utility>

namespace fla_test {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;

DecodeCall::DecodeCall() {
  resize(2, 1, 4, 64, 64);
  args.initial_state = tensor({5, 4, 64, 64});
  args.final_state = tensor({5, 4, 64, 64});
  args.state_indices = tensor({2}, DType::i32);
  args.out = tensor({2, 1, 4, 64});
}

void DecodeCall::resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K, std::int64_t V) {
  args = {};
  args.q = tensor({B, T, 2, K});
  args.k = tensor({B, T, 2, K});
  args.v = tensor({B, T, HV, V});
  args.g = tensor({B, T, HV, K});
  args.beta = tensor({B, T, HV});
}

namespace {

constexpr std::int64_t kTooFar = std::int64_t{1} << 32;

/// Two tokens a sequence, and memory for the states after each.
void keep_states(DecodeCall& call) {
  call.resize(2, 2, 4, 64, 64);
  call.args.initial_state = call.tensor({2, 4, 64, 64});
  call.args.final_state = call.tensor({2, 4, 64, 64});
  call.args.checkpoint_every = 1;
  call.args.checkpoints = call.tensor({2, 2, 4, 64, 64});
}

/// A stride that 32 bits do not hold, or a negative one, on one axis of one argument.
Refusal far(const char* name, const char* argument, TensorView KdaArgs::*member, int axis,
            std::int64_t stride = kTooFar) {
  return {
      name,
      [=](DecodeCall& call) { call.args.*member = DecodeCall::strided(call.args.*member, axis, stride); },
      "requires strides from 0 to 2^32-1 in " + std::string(argument) + ", got " + std::to_string(stride)};
}

/// Two tokens, each with its checkpoint.
Refusal checkpoints(const char* name, const std::function<void(DecodeCall&)>& spoil, std::string reason) {
  return {name,
          [spoil](DecodeCall& call) {
            keep_states(call);
            spoil(call);
          },
          std::move(reason)};
}

void use_gate(DecodeCall& call, std::int64_t bias_rank) {
  call.args.use_gate_in_kernel = true;
  call.args.A_log = call.tensor({4});
  call.args.dt_bias = bias_rank == 1 ? call.tensor({4 * 64}) : call.tensor({4, 64});
}

}  // namespace

fla::SimpleGlaArgs OtherOpsCall::with_backward_gamma() {
  return {.q = args.q, .k = args.k, .v = args.v, .g_gamma = strided(tensor({4}), 0, -1)};
}

fla::DplrDeltaRuleArgs OtherOpsCall::with_far(TensorView fla::DplrDeltaRuleArgs::*member) {
  fla::DplrDeltaRuleArgs other{.q = args.q, .k = args.k, .v = args.v, .a = args.k, .b = args.k, .g = args.g};
  other.*member = strided(other.*member, 0, kTooFar);
  return other;
}

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> all{
      {"CpuTensors",
       [](DecodeCall& call) {
         call.put_on({});
         call.index_on_host();
       },
       "requires CUDA tensors, got cpu"},
      {"PackedSequences",
       [](DecodeCall& call) {
         call.resize(1, 1, 4, 64, 64);
         call.args.cu_seqlens = call.tensor({2}, DType::i64);
       },
       "requires sequences that are not packed, got cu_seqlens of 2 entries"},
      {"NineTokens", [](DecodeCall& call) { call.resize(2, 9, 4, 64, 64); }, "requires T from 1 to 8, got 9"},
      {"NoTokens", [](DecodeCall& call) { call.resize(2, 0, 4, 64, 64); }, "requires T from 1 to 8, got 0"},
      {"K32", [](DecodeCall& call) { call.resize(2, 1, 4, 32, 64); }, "requires K=64 or K=128, got 32"},
      {"V96", [](DecodeCall& call) { call.resize(2, 1, 4, 64, 96); }, "requires V=64 or V=128, got 96"},
      {"TooManyHeads", [](DecodeCall& call) { call.resize(2, 1, 65536, 64, 64); },
       "requires at most 65535 value heads, got 65536"},
      far("FarBatchesOfQ", "q", &KdaArgs::q, 0),
      {"FarTokensOfQ",
       [](DecodeCall& call) {
         call.resize(2, 2, 4, 64, 64);
         call.args.q = DecodeCall::strided(call.args.q, 1, kTooFar);
       },
       "requires strides from 0 to 2^32-1 in q, got 4294967296"},
      far("FarHeadsOfK", "k", &KdaArgs::k, 2),
      far("FarChannelsOfV", "v", &KdaArgs::v, 3),
      far("BackwardChannelsOfG", "g", &KdaArgs::g, 3, -1),
      far("BackwardHeadsOfBeta", "beta", &KdaArgs::beta, 2, -1),
      far("FarBatchesOfOut", "out", &KdaArgs::out, 0),
      {"BackwardRates",
       [](DecodeCall& call) {
         use_gate(call, 2);
         call.args.A_log = DecodeCall::strided(call.args.A_log, 0, -1);
       },
       "requires strides from 0 to 2^32-1 in A_log, got -1"},
      {"FarHeadsOfBias",
       [](DecodeCall& call) {
         use_gate(call, 2);
         call.args.dt_bias = DecodeCall::strided(call.args.dt_bias, 0, kTooFar);
       },
       "requires strides from 0 to 2^32-1 in dt_bias, got 4294967296"},
      {"FarElementsOfFlatBias",
       [](DecodeCall& call) {
         use_gate(call, 1);
         call.args.dt_bias = DecodeCall::strided(call.args.dt_bias, 0, kTooFar / 64);
       },
       "requires strides from 0 to 2^32-1 in dt_bias, got 67108864"},
      {"BackwardElementsOfFlatBias",
       [](DecodeCall& call) {
         use_gate(call, 1);
         call.args.dt_bias = DecodeCall::strided(call.args.dt_bias, 0, -1);
       },
       "requires strides from 0 to 2^32-1 in dt_bias, got -1"},
      {"ScatteredValuesOfInitialState",
       [](DecodeCall& call) { call.args.initial_state = DecodeCall::strided(call.args.initial_state, 3, 2); },
       "requires contiguous states in initial_state, got strides 64 and 2"},
      {"ScatteredKeysOfFinalState",
       [](DecodeCall& call) {
         call.args.final_state = call.tensor({5, 4, 64, 80}).slice(3, 0, 64);
       },
       "requires contiguous states in final_state, got strides 80 and 1"},
      {"MisalignedInitialState",
       [](DecodeCall& call) { call.args.initial_state = DecodeCall::moved(call.args.initial_state, 4); },
       "requires initial_state aligned to 16 bytes, got an address 4 bytes off"},
      {"MisalignedSlots",
       [](DecodeCall& call) {
         call.args.final_state = DecodeCall::strided(call.args.final_state, 0, 4 * 64 * 64 + 2);
       },
       "requires slots of final_state at multiples of 16 bytes, got stride 16386"},
      {"MisalignedHeads",
       [](DecodeCall& call) {
         call.args.initial_state = DecodeCall::strided(call.args.initial_state, 1, 64 * 64 + 1);
       },
       "requires heads of initial_state at multiples of 16 bytes, got stride 4097"},
      {"StatesOfTwoDtypes",
       [](DecodeCall& call) {
         call.args.final_state = call.tensor({5, 4, 64, 64}, DType::bf16);
       },
       "requires all states in one dtype, got f32 and bf16"},
      checkpoints(
          "CheckpointsOfAnotherDtypeThanTheFirstState",
          [](DecodeCall& call) {
            call.args.final_state = {};
            call.args.checkpoints = call.tensor({2, 2, 4, 64, 64}, DType::bf16);
          },
          "requires all states in one dtype, got f32 and bf16"),
      checkpoints(
          "CheckpointsOfAnotherDtypeThanTheLastState",
          [](DecodeCall& call) {
            call.args.initial_state = {};
            call.args.checkpoints = call.tensor({2, 2, 4, 64, 64}, DType::bf16);
          },
          "requires all states in one dtype, got f32 and bf16"),
      checkpoints(
          "ScatteredCheckpoints",
          [](DecodeCall& call) {
            call.args.checkpoints = call.tensor({2, 2, 4, 64, 80}).slice(4, 0, 64);
          },
          "requires contiguous states in checkpoints, got strides 80 and 1"),
      checkpoints(
          "CheckpointsOfAnotherDtypeThanTheStateThatIsMade",
          [](DecodeCall& call) {
            call.args.initial_state = call.args.final_state = {};
            call.args.output_final_state = true;
            call.args.checkpoints = call.tensor({2, 2, 4, 64, 64}, DType::bf16);
          },
          "requires all states in one dtype, got f32 and bf16"),
      checkpoints(
          "MisalignedSequencesOfCheckpoints",
          [](DecodeCall& call) {
            call.args.checkpoints = DecodeCall::strided(call.args.checkpoints, 0, 2 * 4 * 64 * 64 + 1);
          },
          "requires sequences of checkpoints at multiples of 16 bytes, got stride 32769"),
      {"TooSmallAWorkspace",
       [](DecodeCall& call) {
         call.index_on_host();
         call.args.workspace = {call.tensor({64}).data(), 255};
       },
       "requires a workspace of 256 bytes, got 255"},
      {"AMisalignedWorkspace",
       [](DecodeCall& call) {
         call.index_on_host();
         call.args.workspace = {call.tensor({64}).as<std::byte>() + 8, 256};
       },
       "requires a workspace aligned to 256 bytes, got an address 8 bytes off"},
  };
  return all;
}

const std::vector<Acceptance>& acceptances() {
  static const std::vector<Acceptance> all{
      {"AnOrdinaryCall", [](DecodeCall&) {}},
      {"NoState", [](DecodeCall& call) { call.resize(2, 1, 4, 128, 128); }},
      {"EightTokens", [](DecodeCall& call) { call.resize(2, 8, 4, 128, 64); }},
      {"Checkpoints", keep_states},
      {"CheckpointsAlone",
       [](DecodeCall& call) {
         keep_states(call);
         call.args.initial_state = call.args.final_state = {};
         call.args.checkpoints = call.tensor({2, 2, 4, 64, 64}, DType::bf16);
       }},
      {"ACheckpointOfOneToken",
       [](DecodeCall& call) {
         call.args.checkpoint_every = 1;
         call.args.checkpoints = call.tensor({2, 1, 4, 64, 64});
       }},
      {"NoSequences", [](DecodeCall& call) { call.resize(0, 1, 4, 128, 128); }},
      {"Bf16States",
       [](DecodeCall& call) {
         call.args.initial_state = call.args.final_state = call.tensor({5, 4, 64, 64}, DType::bf16);
       }},
      {"ValuesFirst",
       [](DecodeCall& call) {
         call.resize(2, 1, 4, 64, 128);
         call.args.state_v_first = true;
         call.args.initial_state = call.tensor({2, 4, 128, 64});
       }},
      {"AnyStrideOfAnAxisWithOneElement",
       [](DecodeCall& call) {
         call.resize(1, 1, 4, 64, 64);
         call.args.q = DecodeCall::strided(call.args.q, 0, -1);
         call.args.initial_state = DecodeCall::strided(call.tensor({1, 4, 64, 64}), 0, 3);
       }},
      {"AnyStrideOfTheOneToken",
       [](DecodeCall& call) { call.args.v = DecodeCall::strided(call.args.v, 1, -kTooFar); }},
      {"ABroadcastBatch", [](DecodeCall& call) { call.args.q = DecodeCall::strided(call.args.q, 0, 0); }},
      {"TheLargestStride",
       [](DecodeCall& call) { call.args.q = DecodeCall::strided(call.args.q, 0, kTooFar - 1); }},
      {"IndicesOnTheHost", [](DecodeCall& call) { call.index_on_host(); }},
      {"IndicesOnTheHostAndRoomForThem",
       [](DecodeCall& call) {
         call.index_on_host();
         call.args.workspace = {call.tensor({64}).data(), 256};
       }},
      {"AWorkspaceThatItDoesNotNeed",
       [](DecodeCall& call) {
         call.args.workspace = {call.tensor({1}).as<std::byte>() + 1, 1};
       }},
  };
  return all;
}

}  // namespace fla_test
