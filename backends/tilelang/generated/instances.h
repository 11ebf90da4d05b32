// Made by tools/tilelang_aot from backends/tilelang/instances.toml; not to be edited.
// generator: tilelang 0.1.15
// target: sm_90a
// flags: --use_fast_math
// TMA descriptors: none
#pragma once

#include <cuda_runtime_api.h>

#include "backends/tilelang/instance.h"

namespace fla::tilelang::generated {

/// The arguments of kda_prepare, as kda_prepare.py describes them.
struct KdaPrepare {
  void* q = nullptr;  ///< the instance's dtype
  void* k = nullptr;  ///< the instance's dtype
  void* g = nullptr;  ///< the instance's dtype
  void* g_f32 = nullptr;  ///< float32*
  void* beta = nullptr;  ///< the instance's dtype
  void* beta_f32 = nullptr;  ///< float32*
  void* A_log = nullptr;  ///< the instance's dtype
  void* A_log_f32 = nullptr;  ///< float32*
  void* dt_bias = nullptr;  ///< the instance's dtype
  void* dt_bias_f32 = nullptr;  ///< float32*
  void* cu_seqlens = nullptr;  ///< int32*
  void* operators = nullptr;
  void* triangles = nullptr;
  void* vectors = nullptr;  ///< float32*
  std::int32_t N = 0;
  std::int32_t tokens = 0;
  std::int32_t places = 0;
  std::int32_t HV = 0;
  std::int32_t group = 0;
  std::int64_t q_batch = 0;
  std::int64_t q_token = 0;
  std::int64_t q_head = 0;
  std::int64_t k_batch = 0;
  std::int64_t k_token = 0;
  std::int64_t k_head = 0;
  std::int64_t g_batch = 0;
  std::int32_t g_token = 0;
  std::int64_t g_head = 0;
  std::int64_t g_channel = 0;
  std::int64_t beta_batch = 0;
  std::int64_t beta_token = 0;
  std::int64_t beta_head = 0;
  std::int64_t A_log_head = 0;
  std::int64_t dt_bias_head = 0;
  std::int64_t dt_bias_channel = 0;
  std::int64_t cu_seqlens_stride = 0;
  std::int32_t cu_seqlens_wide = 0;
  std::int32_t search_steps = 0;
  std::int32_t g_is_f32 = 0;
  std::int32_t beta_is_f32 = 0;
  std::int32_t has_A_log = 0;
  std::int32_t A_log_is_f32 = 0;
  std::int32_t has_dt_bias = 0;
  std::int32_t dt_bias_is_f32 = 0;
  std::int32_t gate = 0;
  float lower_bound = 0;
  std::int32_t l2norm = 0;
  std::int32_t beta_sigmoid = 0;
  float beta_factor = 0;
};

cudaError_t kda_prepare_k64_bf16(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k64_bf16_varlen(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k64_f16(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k64_f16_varlen(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k128_bf16(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k128_bf16_varlen(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k128_f16(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k128_f16_varlen(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k256_bf16(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k256_bf16_varlen(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k256_f16(const KdaPrepare& arguments, cudaStream_t stream);
cudaError_t kda_prepare_k256_f16_varlen(const KdaPrepare& arguments, cudaStream_t stream);

inline constexpr Instance<KdaPrepare> kKdaPrepare[] = {
    {.name = "kda_prepare_k64_bf16",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 63488,
     .source_sha256 = "c4a642951c294f57fc59b3f2ff59ed5d7a078a2106ed849c81280bbb5b85b1aa",
     .code_sha256 = "9bcea346709416b4299a219a08eca66db3d0f3bff6df97766d36755211ebce47",
     .launch = &kda_prepare_k64_bf16},
    {.name = "kda_prepare_k64_bf16_varlen",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 63488,
     .source_sha256 = "ddd71471c1594708153bb69d655d36107b52b2ec2f54e9b4d6a8f15f056d6c00",
     .code_sha256 = "b5d63655a601d7e4420fa8e52ff0983ed8acc77c0c4c818615376354d3b4845d",
     .launch = &kda_prepare_k64_bf16_varlen},
    {.name = "kda_prepare_k64_f16",
     .K = 64,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 63488,
     .source_sha256 = "82b35a8bcc64919c9542b2f6bb111d95bac20481b7e9d56024b64ee8a721b01a",
     .code_sha256 = "72975f92124da079081e1cf1eb91429b37e530442ea518ed22f8a02593f48bf7",
     .launch = &kda_prepare_k64_f16},
    {.name = "kda_prepare_k64_f16_varlen",
     .K = 64,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 63488,
     .source_sha256 = "f217b99cb1914b845054f8828d9f67b89eba02bb2d34c9e8a22d0f256cd42878",
     .code_sha256 = "bdbe91340272a5853e4516e11202f0698638f7ed1b66e595d3aac606a3288ac0",
     .launch = &kda_prepare_k64_f16_varlen},
    {.name = "kda_prepare_k128_bf16",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "abbf2d517c67c650be080345b40208f3fc66eab0ad086ee53ff2893fc1c9f0d9",
     .code_sha256 = "24c68ad01fe0ee2bb7f46d4c20168577fa34d44b7404f62ec220aa1a982191f8",
     .launch = &kda_prepare_k128_bf16},
    {.name = "kda_prepare_k128_bf16_varlen",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "4c93b71cd2b8ab64fbb5da4e5a837f700cd37b07fa45e2519873917dcaa268e7",
     .code_sha256 = "ce5d418cf0f6d4b34163d1e515f12191c920f209c27f14f04e137ddbd39bdae5",
     .launch = &kda_prepare_k128_bf16_varlen},
    {.name = "kda_prepare_k128_f16",
     .K = 128,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "d924d8841af252b2d03a0f7153609a8cc0991b9299333ab05525f77cfc242eef",
     .code_sha256 = "80636affafdeb8d236b6006a11718773aa8201c13fbcb384c8bd20f7738a9afa",
     .launch = &kda_prepare_k128_f16},
    {.name = "kda_prepare_k128_f16_varlen",
     .K = 128,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "53c813046015368dc29250190e3cb4e4d13de7d9baf850dc9dfc21ca4933d774",
     .code_sha256 = "ffddd85f5b17ac3428a320b3cb3676208a7055152491a0a9b59d66031d8d1fec",
     .launch = &kda_prepare_k128_f16_varlen},
    {.name = "kda_prepare_k256_bf16",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "042310ca1ea85f78c6542402dda23df0ceec3cc027e5e32b63e7771f49e2bbe2",
     .code_sha256 = "66335b80d6459110fa39c847c99ca2e7305490cc8f69c9b930b534e7bd4d5cb5",
     .launch = &kda_prepare_k256_bf16},
    {.name = "kda_prepare_k256_bf16_varlen",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "28e95d94d15e0f2a0ea7ecc0808f01703687c52cea518b284aae647cd593c52b",
     .code_sha256 = "ef721a77cac2e9985b889bef82ee69cf79b28a267c203029404fb99db8ab78fb",
     .launch = &kda_prepare_k256_bf16_varlen},
    {.name = "kda_prepare_k256_f16",
     .K = 256,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "3b3306f6ec6155af44ba39315cf5a9f366660187d96b79280a6a68ff92eb5c2f",
     .code_sha256 = "56cc9d658c93a1a1a3a781fcf903f630bae2d5dba9ed7fa2a4e3442246dd17ea",
     .launch = &kda_prepare_k256_f16},
    {.name = "kda_prepare_k256_f16_varlen",
     .K = 256,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "808ab8874d9f030e0413df02b4d11117eba2782900a3de087c8dbffb40218bdb",
     .code_sha256 = "dbdb7f379b01e0025ada6db5ad2ca19e71f2c647a09e136bca0d9136329001e7",
     .launch = &kda_prepare_k256_f16_varlen},
};

/// The arguments of kda_state, as kda_state.py describes them.
struct KdaState {
  void* operators = nullptr;
  void* triangles = nullptr;
  void* vectors = nullptr;  ///< float32*
  void* v = nullptr;  ///< the instance's dtype
  void* o = nullptr;  ///< the instance's dtype
  void* initial_state = nullptr;  ///< float32*
  void* final_state = nullptr;  ///< float32*
  void* cu_seqlens = nullptr;  ///< int32*
  void* read_slots = nullptr;  ///< int32*
  void* write_slots = nullptr;  ///< int32*
  std::int32_t N = 0;
  std::int32_t tokens = 0;
  std::int32_t HV = 0;
  std::int32_t V = 0;
  std::int64_t v_batch = 0;
  std::int64_t v_token = 0;
  std::int64_t v_head = 0;
  std::int64_t o_batch = 0;
  std::int64_t o_token = 0;
  std::int64_t o_head = 0;
  std::int64_t initial_slot = 0;
  std::int64_t initial_head = 0;
  std::int64_t initial_key = 0;
  std::int64_t initial_value = 0;
  std::int64_t final_slot = 0;
  std::int64_t final_head = 0;
  std::int64_t final_key = 0;
  std::int64_t final_value = 0;
  std::int32_t has_initial = 0;
  std::int32_t has_final = 0;
  std::int32_t pool = 0;
  std::int32_t has_read_slots = 0;
  std::int64_t read_slots_stride = 0;
  std::int32_t read_slots_wide = 0;
  std::int32_t has_write_slots = 0;
  std::int64_t write_slots_stride = 0;
  std::int32_t write_slots_wide = 0;
  std::int64_t cu_seqlens_stride = 0;
  std::int32_t cu_seqlens_wide = 0;
  float scale = 0;
};

cudaError_t kda_state_k64_bf16(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k64_bf16_varlen(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k64_f16(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k64_f16_varlen(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k128_bf16(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k128_bf16_varlen(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k128_f16(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k128_f16_varlen(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k256_bf16(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k256_bf16_varlen(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k256_f16(const KdaState& arguments, cudaStream_t stream);
cudaError_t kda_state_k256_f16_varlen(const KdaState& arguments, cudaStream_t stream);

inline constexpr Instance<KdaState> kKdaState[] = {
    {.name = "kda_state_k64_bf16",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 92416,
     .source_sha256 = "2c14971190f8bdeda0939b483d3e02f40551f13f0ba9169e6a977b3c10486abe",
     .code_sha256 = "92b1a734be201e43aa7efad31a50d6b2e5f6ff2ae8b780e95df4e0cfbb1be608",
     .launch = &kda_state_k64_bf16},
    {.name = "kda_state_k64_bf16_varlen",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 92416,
     .source_sha256 = "37f4e704085932818e308bed7f94f9e94d003e67a30f35c0690083f225d233df",
     .code_sha256 = "a605b2b7196cf91061f0bef0a6e61297874c73cdf07c8a6ee86e00fe20192bd5",
     .launch = &kda_state_k64_bf16_varlen},
    {.name = "kda_state_k64_f16",
     .K = 64,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 92416,
     .source_sha256 = "a116bba70e2c0eb3aff067b0456a456c4626542e170cbff12b1650a1850f52bb",
     .code_sha256 = "abf284ae660f12d41c0ac4a496194b8c0060e2aacf53dacb0521130a12fc2e81",
     .launch = &kda_state_k64_f16},
    {.name = "kda_state_k64_f16_varlen",
     .K = 64,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 92416,
     .source_sha256 = "33641dc09ab3189b21bfe81b81bf3bd284787d931256dbe8483a7e6d537aff23",
     .code_sha256 = "304b66c926b879d6b084a175353db8fe910b54b060afa72b7a70b2bda8e18612",
     .launch = &kda_state_k64_f16_varlen},
    {.name = "kda_state_k128_bf16",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 150784,
     .source_sha256 = "b4e7a3dd5c819114fc6caa85d36ef6ed13f14a4abec310c15cd74a1f7358f783",
     .code_sha256 = "d8266092a0ec745752d7467bee4c7093f15b5fce6e3638fcee7457bf7a1784bf",
     .launch = &kda_state_k128_bf16},
    {.name = "kda_state_k128_bf16_varlen",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 150784,
     .source_sha256 = "ca0812e7ccee87993526cd4a783f54c8093708d2d5e8560ef9c444b0b7b78f9e",
     .code_sha256 = "85b225a6f2227c3f7e684c5047a50631435f381df937ed88a17ba6bd83a4362c",
     .launch = &kda_state_k128_bf16_varlen},
    {.name = "kda_state_k128_f16",
     .K = 128,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 150784,
     .source_sha256 = "4808bb8ade0a695e5a51e0f883535ec26a9ba51349fa8b5df529e69cc500f6d0",
     .code_sha256 = "78f0497543e82adaffc9d1d951faccbf5e9b11b1b40732dc62296fa1a7d2e6f0",
     .launch = &kda_state_k128_f16},
    {.name = "kda_state_k128_f16_varlen",
     .K = 128,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 150784,
     .source_sha256 = "0b84a9e3a02db69439b688f6af8158b89ff39c163a4933c4ef448d377648a427",
     .code_sha256 = "86619bd825a0c8855ab671b554ab8f1568e285f4d3e482f7c507c3a632c4c05a",
     .launch = &kda_state_k128_f16_varlen},
    {.name = "kda_state_k256_bf16",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 157952,
     .source_sha256 = "9fc32884f4e162bf2ac3cc16bb7bd8bddbdd707665dc3ad37309cd88b118081b",
     .code_sha256 = "89af6704dbce746cc1f5fd6d7464acf7bf65fa32a317fbaa822b4592a9f971ac",
     .launch = &kda_state_k256_bf16},
    {.name = "kda_state_k256_bf16_varlen",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 157952,
     .source_sha256 = "1dc199484e75e04049a44854e200fa3fddad584d91ccd4e284ee3a5f39eddf30",
     .code_sha256 = "9c4289819d7a54e969c23313d190d253d428afd1f7e3379ae6622a1192f7c192",
     .launch = &kda_state_k256_bf16_varlen},
    {.name = "kda_state_k256_f16",
     .K = 256,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 157952,
     .source_sha256 = "69acfe0476ba96ddc56389b001f3baaaf491270a69790ee070f64e9d6380931f",
     .code_sha256 = "e188b403321e33a99d7eeaabe59e8fd8d63d5da4c84fa3ff325e11f2194c5a84",
     .launch = &kda_state_k256_f16},
    {.name = "kda_state_k256_f16_varlen",
     .K = 256,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 157952,
     .source_sha256 = "632cc6277a8cf7b515d590260ae588fdf6e746f285d56246afed75070a715f6b",
     .code_sha256 = "714979c752ca1559bc7ce80947a504f51b0239e88214a868a7be1e3a714eac36",
     .launch = &kda_state_k256_f16_varlen},
};

}  // namespace fla::tilelang::generated
