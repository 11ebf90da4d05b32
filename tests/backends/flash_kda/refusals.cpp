#include "tests/backends/flash_kda/refusals.h"

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
      resized("K96", 2, 200, 4, 96, 128, "requires K=64 or K=128, got 96"),
      resized("V96", 2, 200, 4, 128, 96, "requires V of 64, 128, 192 or 256, got 96"),
      resized("TooManyTokens", 1, (std::int64_t{1} << 31) - 64, 2, 128, 128,
              "requires fewer than 2^31-64 tokens, got 2147483584"),
      {"TooManyPackedSequences", [](ChunkCall& call) { call.pack(8193, 10000); },
       "requires at most 8192 packed sequences, got 8193"},
      resized("TooManyHeads", std::int64_t{1} << 25, 1, 64, 128, 128,
              "requires fewer than 2^31 value heads in all sequences, got 64 in each of 33554432"),
      resized("TooManyChunks", 1, std::int64_t{1} << 30, 128, 128, 128,
              "requires fewer than 2^31 chunks of 64 tokens in all heads, got 2147483648"),
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
      of_dtype("Bf16InitialState", &KdaArgs::initial_state, DType::bf16,
               "requires an f32 initial_state, got bf16"),
      of_dtype("Bf16FinalState", &KdaArgs::final_state, DType::bf16, "requires an f32 final_state, got bf16"),
      {"ABoundOfNextToNothing", [](ChunkCall& call) { call.args.lower_bound = -0x1p-130f; },
       "requires a lower_bound of at most -1e-30, got -7.34684e-40"},
      strided("ScatteredChannels", &KdaArgs::q, 3, 2, "requires contiguous channels in q, got stride 2"),
      moved("MisalignedKeys", &KdaArgs::k, 8, "requires k aligned to 16 bytes, got an address 8 bytes off"),
      strided("BroadcastHeadsOfV", &KdaArgs::v, 2, 0,
              "requires strides above 0 and below 2^40 bytes in v, got 0"),
      strided("BackwardTokensOfG", &KdaArgs::g, 1, -512,
              "requires strides above 0 and below 2^40 bytes in g, got -512"),
      strided("FarBatchesOfQ", &KdaArgs::q, 0, std::int64_t{1} << 39,
              "requires strides above 0 and below 2^40 bytes in q, got 549755813888"),
      strided("CrookedTokensOfK", &KdaArgs::k, 1, 260,
              "requires strides that are multiples of 16 bytes in k, got 260"),
      {"CrookedTokensOfOut",
       [](ChunkCall& call) {
         call.args.out = call.tensor({2, 200, 516}, DType::bf16);
         call.args.out =
             TensorView(call.args.out.data(), DType::bf16, std::array<std::int64_t, 4>{2, 200, 4, 128},
                        std::array<std::int64_t, 4>{200 * 516, 516, 128, 1}, call.args.out.device());
       },
       "requires strides that are multiples of 16 bytes in out, got 516"},
  };
  return all;
}

const std::vector<Acceptance>& acceptances() {
  static const std::vector<Acceptance> all{
      {"AnOrdinaryCall", [](ChunkCall&) {}},
      {"PackedSequences", [](ChunkCall& call) { call.pack(8192, 100); }},
      {"HeadsOf64Channels", [](ChunkCall& call) { call.resize(2, 200, 4, 64, 64); }},
      {"KeysOf64Channels", [](ChunkCall& call) { call.resize(2, 200, 4, 64, 128); }},
      {"ValuesOf64Channels", [](ChunkCall& call) { call.resize(2, 200, 4, 128, 64); }},
      {"ValuesOf192Channels", [](ChunkCall& call) { call.resize(2, 200, 4, 128, 192); }},
      {"ValuesOf256Channels", [](ChunkCall& call) { call.resize(2, 200, 4, 64, 256); }},
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
      {"AnyStrideOfBeta",
       [](ChunkCall& call) { call.args.beta = ChunkCall::strided(call.args.beta, 2, -3); }},
      {"AnyStrideOfAnAxisWithOneElement",
       [](ChunkCall& call) {
         call.resize(1, 200, 4);
         call.args.v = ChunkCall::strided(call.args.v, 0, 7);
       }},
      {"SlicesOfAFusedProjection",
       [](ChunkCall& call) {
         call.resize(1, 200, 2);
         const TensorView rows = call.tensor({1, 200, 8, 128}, DType::bf16);
         call.args.q = rows.slice(2, 0, 2);
         call.args.k = rows.slice(2, 2, 2);
         call.args.v = rows.slice(2, 4, 2);
         call.args.g = rows.slice(2, 6, 2);
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
