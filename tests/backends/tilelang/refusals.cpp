#include "tests/backends/tilelang/refusals.h"

#include <array>
#include <cstdint>

namespace fla_test {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> all{
      {"CpuTensors",
       [](ChunkCall& call) {
         call.put_on({});
         call.index_on_host();
       },
       "requires CUDA tensors, got cpu"},
      with_checkpoints(),
      resized("K96", 2, 200, 4, 96, 128, "requires K=64, K=128 or K=256, got 96"),
      resized("V96", 2, 200, 4, 128, 96, "requires a V that is a multiple of 64, got 96"),
      resized("TooManyTokens", 1, (std::int64_t{1} << 31) - 192, 2, 128, 128,
              "requires fewer than 2^31-192 tokens, got 2147483456"),
      resized(
          "TooManyHeads", std::int64_t{1} << 24, 1, 64, 64, 128,
          "requires fewer than 2^31 blocks of 64 values in all heads of all sequences, got 128 in each of "
          "16777216"),
      resized("TooManyChunks", 1, std::int64_t{1} << 30, 128, 64, 64,
              "requires fewer than 2^31 chunks of 64 tokens in all heads, got 16777216 in each of 128"),
      of_dtype("F32Queries", &KdaArgs::q, DType::f32, "requires q in bf16 or f16, got f32"),
      of_dtype("KeysOfAnotherDtype", &KdaArgs::k, DType::f16, "requires k in the dtype of q, bf16, got f16"),
      {"ValuesOfAnotherDtype",
       [](ChunkCall& call) {
         call.resize(2, 200, 4);
         call.args.v = call.tensor({2, 200, 4, 128}, DType::f32);
       },
       "requires v in the dtype of q, bf16, got f32"},
      of_dtype("GatesOfAnotherDtype", &KdaArgs::g, DType::f16,
               "requires g in the dtype of q, bf16, or in f32, got f16"),
      of_dtype("BetaOfAnotherDtype", &KdaArgs::beta, DType::f16,
               "requires beta in the dtype of q, bf16, or in f32, got f16"),
      of_dtype("RatesOfAnotherDtype", &KdaArgs::A_log, DType::f16,
               "requires A_log in the dtype of q, bf16, or in f32, got f16"),
      of_dtype("BiasOfAnotherDtype", &KdaArgs::dt_bias, DType::f16,
               "requires dt_bias in the dtype of q, bf16, or in f32, got f16"),
      of_dtype("Bf16InitialState", &KdaArgs::initial_state, DType::bf16,
               "requires an f32 initial_state, got bf16"),
      of_dtype("Bf16FinalState", &KdaArgs::final_state, DType::bf16, "requires an f32 final_state, got bf16"),
      strided("ScatteredChannels", &KdaArgs::q, 3, 2, "requires contiguous channels in q, got stride 2"),
      moved("MisalignedKeys", &KdaArgs::k, 8, "requires k aligned to 16 bytes, got an address 8 bytes off"),
      strided("CrookedTokensOfV", &KdaArgs::v, 1, 516,
              "requires strides that are multiples of 8 in v, got 516"),
      strided("FarTokensOfG", &KdaArgs::g, 1, std::int64_t{1} << 25,
              "requires tokens of g less than 2^25 elements apart, got 33554432"),
      strided("FarTokensOfGBackwards", &KdaArgs::g, 1, -(std::int64_t{1} << 25),
              "requires tokens of g less than 2^25 elements apart, got -33554432"),
      {"CrookedTokensOfOut",
       [](ChunkCall& call) {
         call.args.out = call.tensor({2, 200, 516}, DType::bf16);
         call.args.out =
             TensorView(call.args.out.data(), DType::bf16, std::array<std::int64_t, 4>{2, 200, 4, 128},
                        std::array<std::int64_t, 4>{200 * 516, 516, 128, 1}, call.args.out.device());
       },
       "requires strides that are multiples of 8 in out, got 516"},
  };
  return all;
}

const std::vector<Acceptance>& acceptances() {
  static const std::vector<Acceptance> all{
      {"AnOrdinaryCall", [](ChunkCall&) {}},
      {"K64V64", [](ChunkCall& call) { call.resize(2, 200, 4, 64, 64); }},
      {"K256V256", [](ChunkCall& call) { call.resize(2, 200, 4, 256, 256); }},
      {"K64V192", [](ChunkCall& call) { call.resize(2, 200, 4, 64, 192); }},
      {"PackedSequences", [](ChunkCall& call) { call.pack(100000, 100); }},
      {"NoTokens", [](ChunkCall& call) { call.resize(2, 0, 4); }},
      {"NoSequences", [](ChunkCall& call) { call.resize(0, 200, 4); }},
      {"F32Gates",
       [](ChunkCall& call) {
         call.args.g = call.tensor({2, 200, 4, 128});
       }},
      {"Bf16Beta",
       [](ChunkCall& call) {
         call.args.beta = call.tensor({2, 200, 4}, DType::bf16);
       }},
      {"AGateOfNextToNothing", [](ChunkCall& call) { call.args.lower_bound = -0x1p-130f; }},
      {"AnyStrideOfBeta",
       [](ChunkCall& call) { call.args.beta = ChunkCall::strided(call.args.beta, 2, -3); }},
      {"AnyStrideOfG", [](ChunkCall& call) { call.args.g = ChunkCall::strided(call.args.g, 3, 7); }},
      {"BroadcastHeadsOfV", [](ChunkCall& call) { call.args.v = ChunkCall::strided(call.args.v, 2, 0); }},
      {"BackwardTokensOfK", [](ChunkCall& call) { call.args.k = ChunkCall::strided(call.args.k, 1, -256); }},
      {"AnyStrideOfAnAxisWithOneElement",
       [](ChunkCall& call) {
         call.resize(1, 200, 4);
         call.args.v = ChunkCall::strided(call.args.v, 0, 7);
       }},
      {"AnyStridesOfStates",
       [](ChunkCall& call) {
         call.args.initial_state = call.tensor({5, 4, 128, 130}).slice(3, 1, 128);
       }},
      {"ValuesFirst", [](ChunkCall& call) { call.args.state_v_first = true; }},
      {"IndicesOnTheHost", [](ChunkCall& call) { call.index_on_host(); }},
  };
  return all;
}

}  // namespace fla_test
