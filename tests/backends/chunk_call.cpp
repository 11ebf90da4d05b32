#include "tests/backends/chunk_call.h"

#include <utility>

namespace fla_test {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;

ChunkCall::ChunkCall() {
  resize(2, 200, 4);
  args.use_gate_in_kernel = true;
  args.lower_bound = -5.0f;
  args.A_log = tensor({4});
  args.dt_bias = tensor({4, 128});
  args.initial_state = tensor({5, 4, 128, 128});
  args.final_state = tensor({5, 4, 128, 128});
  args.state_indices = tensor({2}, DType::i32);
  args.out = tensor({2, 200, 4, 128}, DType::bf16);
}

void ChunkCall::resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K, std::int64_t V) {
  args = {};
  args.q = tensor({B, T, 2, K}, DType::bf16);
  args.k = tensor({B, T, 2, K}, DType::bf16);
  args.v = tensor({B, T, HV, V}, DType::bf16);
  args.g = tensor({B, T, HV, K}, DType::bf16);
  args.beta = tensor({B, T, HV});
}

void ChunkCall::pack(std::int64_t N, std::int64_t T) {
  resize(1, T, 4);
  args.cu_seqlens = tensor({N + 1}, DType::i64);
}

Refusal of_dtype(const char* name, TensorView KdaArgs::*member, DType dtype, std::string reason) {
  return {name,
          [=](ChunkCall& call) {
            const TensorView& view = call.args.*member;
            call.args.*member = TensorView(view.data(), dtype, view.shape(), view.strides(), view.device());
          },
          std::move(reason)};
}

Refusal strided(const char* name, TensorView KdaArgs::*member, int axis, std::int64_t stride,
                std::string reason) {
  return {name,
          [=](ChunkCall& call) { call.args.*member = ChunkCall::strided(call.args.*member, axis, stride); },
          std::move(reason)};
}

Refusal moved(const char* name, TensorView KdaArgs::*member, std::int64_t bytes, std::string reason) {
  return {name, [=](ChunkCall& call) { call.args.*member = ChunkCall::moved(call.args.*member, bytes); },
          std::move(reason)};
}

Refusal with_checkpoints() {
  return {"Checkpoints",
          [](ChunkCall& call) {
            call.args.checkpoint_every = 64;
            call.args.checkpoints = call.tensor({2, 3, 4, 128, 128});
          },
          "requires a call without checkpoints"};
}

Refusal resized(const char* name, std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K,
                std::int64_t V, std::string reason) {
  return {name, [=](ChunkCall& call) { call.resize(B, T, HV, K, V); }, std::move(reason)};
}

}  // namespace fla_test
