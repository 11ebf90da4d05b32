#include "tests/backends/cuda_backward/refusals.h"

#include <utility>

namespace fla_test {

using fla::DType;
using fla::TensorView;
using Args = fla::KdaBackwardArgs;

GradientCall::GradientCall() {
  resize(2, 200, 4);
  args.use_gate_in_kernel = true;
  args.lower_bound = -5.0f;
  args.A_log = tensor({4});
  args.dt_bias = tensor({4, 128});
  args.initial_state = tensor({2, 4, 128, 128});
  args.dht = tensor({2, 4, 128, 128});
  args.dq = tensor({2, 200, 2, 128}, DType::bf16);
  args.dk = tensor({2, 200, 2, 128}, DType::bf16);
  args.dv = tensor({2, 200, 4, 128}, DType::bf16);
}

void GradientCall::resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K, std::int64_t V,
                          DType dtype) {
  args = {};
  args.q = tensor({B, T, 2, K}, dtype);
  args.k = tensor({B, T, 2, K}, dtype);
  args.v = tensor({B, T, HV, V}, dtype);
  args.g = tensor({B, T, HV, K}, dtype);
  args.beta = tensor({B, T, HV});
  args.do_ = tensor({B, T, HV, V}, dtype);
  args.use_qk_l2norm_in_kernel = true;
}

void GradientCall::pack(std::int64_t N, std::int64_t T) {
  resize(1, T, 4);
  args.cu_seqlens = tensor({N + 1}, DType::i64);
}

void GradientCall::put_on(fla::Device device) { MetadataTensors::put_on(device, Args::arguments(), &args); }

namespace {

/// The chunks that four heads of one sequence may have: 2^31 - 1 blocks, of which its states take four each.
constexpr std::int64_t kMostChunks = (std::int64_t{1} << 29) - 1 - 4;

/// Another dtype of one input, without memory for its gradient.
Refusal of_dtype(const char* name, TensorView Args::*member, DType dtype, std::string reason) {
  return {name,
          [=](GradientCall& call) {
            call.args.dq = call.args.dk = call.args.dv = {};
            const TensorView& view = call.args.*member;
            call.args.*member = TensorView(view.data(), dtype, view.shape(), view.strides(), view.device());
          },
          std::move(reason)};
}

/// Another stride on one axis of one argument.
Refusal strided(const char* name, TensorView Args::*member, int axis, std::int64_t stride,
                std::string reason) {
  return {
      name,
      [=](GradientCall& call) { call.args.*member = GradientCall::strided(call.args.*member, axis, stride); },
      std::move(reason)};
}

/// One argument that begins so many bytes further.
Refusal moved(const char* name, TensorView Args::*member, std::int64_t bytes, std::string reason) {
  return {name,
          [=](GradientCall& call) { call.args.*member = GradientCall::moved(call.args.*member, bytes); },
          std::move(reason)};
}

Refusal resized(const char* name, std::int64_t T, std::int64_t K, std::int64_t V, std::string reason) {
  return {name, [=](GradientCall& call) { call.resize(1, T, 4, K, V); }, std::move(reason)};
}

}  // namespace

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> all{
      {"CpuTensors", [](GradientCall& call) { call.put_on({}); }, "requires CUDA tensors, got cpu"},
      of_dtype("F32Queries", &Args::q, DType::f32, "requires q in bf16 or f16, got f32"),
      resized("K96", 200, 96, 128, "requires K=64 or K=128, got 96"),
      resized("V256", 200, 128, 256, "requires V=64 or V=128, got 256"),
      resized("TooManyChunks", 64 * kMostChunks + 1, 128, 128,
              "requires fewer than 2^31 chunks of 64 tokens in all heads, got 536870908 in each of 4"),
      {"TooManyPackedChunks", [](GradientCall& call) { call.pack(1000, 64 * (kMostChunks - 1000)); },
       "requires fewer than 2^31 chunks of 64 tokens in all heads, got 536870907 in each of 4"},
      {"KeysThatAreNotNormalized", [](GradientCall& call) { call.args.use_qk_l2norm_in_kernel = false; },
       "requires use_qk_l2norm_in_kernel"},
      strided("ScatteredChannelsOfQ", &Args::q, 3, 2, "requires contiguous channels in q, got stride 2"),
      of_dtype("F16Keys", &Args::k, DType::f16, "requires k in the dtype of q, bf16, got f16"),
      moved("MisalignedK", &Args::k, 2, "requires k aligned to 16 bytes, got an address 2 bytes off"),
      of_dtype("F32Values", &Args::v, DType::f32, "requires v in the dtype of q, bf16, got f32"),
      strided("HeadsOfVBetweenMultiplesOf8", &Args::v, 2, 132,
              "requires strides that are multiples of 8 in v, got 132"),
      of_dtype("F32UpstreamGradients", &Args::do_, DType::f32,
               "requires do in the dtype of q, bf16, got f32"),
      strided("TokensOfDoBetweenMultiplesOf8", &Args::do_, 1, 4 * 128 + 1,
              "requires strides that are multiples of 8 in do, got 513"),
      moved("MisalignedG", &Args::g, 2, "requires g aligned to 16 bytes, got an address 2 bytes off"),
      {"BatchesOfDgBetweenMultiplesOf8",
       [](GradientCall& call) {
         call.args.dg =
             GradientCall::strided(call.tensor({2, 200, 4, 128}, DType::bf16), 0, 200 * 4 * 128 + 4);
       },
       "requires strides that are multiples of 8 in dg, got 102404"},
      strided("BatchesOfDqBetweenMultiplesOf8", &Args::dq, 0, 200 * 2 * 128 + 4,
              "requires strides that are multiples of 8 in dq, got 51204"),
      moved("MisalignedDk", &Args::dk, 8, "requires dk aligned to 16 bytes, got an address 8 bytes off"),
      {"ScatteredChannelsOfDv",
       [](GradientCall& call) {
         const TensorView& dv = call.args.dv;
         const std::int64_t head = 2 * 128, token = 4 * head, batch = 200 * token;
         const std::vector<std::int64_t> strides{batch, token, head, 2};
         call.args.dv = TensorView(dv.data(), dv.dtype(), dv.shape(), strides, dv.device());
       },
       "requires contiguous channels in dv, got stride 2"},
  };
  return all;
}

const std::vector<Acceptance>& acceptances() {
  static const std::vector<Acceptance> all{
      {"AnOrdinaryCall", [](GradientCall&) {}},
      {"AllGradientsAndNoStates", [](GradientCall& call) { call.resize(2, 200, 4); }},
      {"F16", [](GradientCall& call) { call.resize(2, 200, 4, 128, 128, DType::f16); }},
      {"K64AndV128", [](GradientCall& call) { call.resize(2, 200, 4, 64, 128); }},
      {"K128AndV64", [](GradientCall& call) { call.resize(2, 200, 4, 128, 64); }},
      {"PackedSequences", [](GradientCall& call) { call.pack(5, 200); }},
      {"NoTokens", [](GradientCall& call) { call.resize(2, 0, 4); }},
      {"NoSequences", [](GradientCall& call) { call.resize(0, 200, 4); }},
      {"TheMostChunks", [](GradientCall& call) { call.resize(1, 64 * kMostChunks, 4); }},
      {"TheMostPackedChunks",
       [](GradientCall& call) { call.pack(1000, 64 * ((std::int64_t{1} << 29) - 1 - 5 * 1000)); }},
      {"OneGradient", [](GradientCall& call) { call.args.dq = call.args.dk = {}; }},
      {"Bf16States",
       [](GradientCall& call) {
         call.args.initial_state = call.args.dht = call.tensor({2, 4, 128, 128}, DType::bf16);
       }},
      {"F32Gates",
       [](GradientCall& call) {
         call.args.g = call.tensor({2, 200, 4, 128});
       }},
      {"AnyStridesOfBetaAndStates",
       [](GradientCall& call) {
         call.args.beta = GradientCall::strided(call.args.beta, 1, 5);
         call.args.dht = GradientCall::moved(GradientCall::strided(call.args.dht, 2, 129), 4);
       }},
      {"AnyStrideOfAnAxisWithOneElement",
       [](GradientCall& call) {
         call.resize(1, 200, 4);
         call.args.q = GradientCall::strided(call.args.q, 0, 3);
       }},
      {"ABroadcastBatch", [](GradientCall& call) { call.args.q = GradientCall::strided(call.args.q, 0, 0); }},
      {"PaddedHeads",
       [](GradientCall& call) {
         call.args.v = call.tensor({2, 200, 4, 136}, DType::bf16).slice(3, 8, 128);
       }},
  };
  return all;
}

}  // namespace fla_test
