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
     .source_sha256 = "6a6e70824d6edebd5f3b214bd6e6c175e460fda50aec10244cc3513bd5aacebd",
     .code_sha256 = "ec29ad6fc13bfeee08f658be5155f66f50c5a5b3f5463acf8af40ecfb6d7516a",
     .launch = &kda_prepare_k64_bf16},
    {.name = "kda_prepare_k64_bf16_varlen",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 63488,
     .source_sha256 = "6c026a26d5c4ed57e2c2d4765c5afb59d6e9232f98fa195d60eb7ba5d1b8899e",
     .code_sha256 = "f44a7a9bb12d246a87aa2645636b4e2e88889fc9a9fac8576a7d9c80b53278b2",
     .launch = &kda_prepare_k64_bf16_varlen},
    {.name = "kda_prepare_k64_f16",
     .K = 64,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 63488,
     .source_sha256 = "2098c14f70b6bef8e8e196ac3b5cba6309361c875d2ef3281b9087282ac4e9e8",
     .code_sha256 = "d75a1212fb38a65fbbe669ea1f0c58ca9cca414491dd756ab8a71306d019980b",
     .launch = &kda_prepare_k64_f16},
    {.name = "kda_prepare_k64_f16_varlen",
     .K = 64,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 63488,
     .source_sha256 = "2c7774a9b83602c8d8f4861ddcda7bf74b5b7912fe5aa2884ce8fe141acc1639",
     .code_sha256 = "ad8f9b3e2f55a3e877964ba9039589506bc02af22f234732b516478271370ca2",
     .launch = &kda_prepare_k64_f16_varlen},
    {.name = "kda_prepare_k128_bf16",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "ec5e7ed121f4b0ad67b2a2d184d61fdd7f44829ae1f4a4fb3b50b6337c61e852",
     .code_sha256 = "f7a9a030a9e2851c775ddb4d90f9642dc29d8ccfecdbf7c20af9924234278253",
     .launch = &kda_prepare_k128_bf16},
    {.name = "kda_prepare_k128_bf16_varlen",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "633f600ef13f068f9ca6ad05b6b8cdd67b7635fc799785667f008d8c5c027dc8",
     .code_sha256 = "d989ab1e0bdb15eb9f1c86c0e68d3ed2b12d6028e4945c505f4540b5867c132e",
     .launch = &kda_prepare_k128_bf16_varlen},
    {.name = "kda_prepare_k128_f16",
     .K = 128,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "0ac48fc3ec2a1a2e8783ff2d88e66ae6a24e268b2218ba9c6c616639cc1e5907",
     .code_sha256 = "d028ee4c49308b0b3794bcd44765eae1cd5f2422723caff5da5d9b2316ec07db",
     .launch = &kda_prepare_k128_f16},
    {.name = "kda_prepare_k128_f16_varlen",
     .K = 128,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 88064,
     .source_sha256 = "0571f73a822571b667bc8a87d8ed21b2018d9a1b968d250dc018888cbaf9cd31",
     .code_sha256 = "6c354e3a228d3836e98b403b4edd82ca25c1dcc0debb49ee62e1147251467d9e",
     .launch = &kda_prepare_k128_f16_varlen},
    {.name = "kda_prepare_k256_bf16",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "5bf10fc8319e1790bf4f2f4d84fe4fc55f4acd76e1cc25a7109089f21af52bcb",
     .code_sha256 = "0f0cd5b63dc4a0dcd200517dddb09e156fe142d2104c1d39f562eb3ce6ac8c74",
     .launch = &kda_prepare_k256_bf16},
    {.name = "kda_prepare_k256_bf16_varlen",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "834dbf3d9bfac29b5e85af59b5f508c8b6071004554854848136ababdc5d449f",
     .code_sha256 = "3f48a2d19612ef60fe61e4fe5e3f9bb8e1a2f77354951474b96eace90fa5cb40",
     .launch = &kda_prepare_k256_bf16_varlen},
    {.name = "kda_prepare_k256_f16",
     .K = 256,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "d3e2ebd8fa07f64137b1390e3c7ffc659ac96d387628c3252e12c6b1119df29a",
     .code_sha256 = "1ce9b38ae44b616ef43197909ce970283a248211ad24ebe71347f17b159b33b5",
     .launch = &kda_prepare_k256_f16},
    {.name = "kda_prepare_k256_f16_varlen",
     .K = 256,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, vectors, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 140288,
     .source_sha256 = "ff9f73dd88c57830f7c18b651e16e2b5f997b038af9a417aaf67c742c60a61df",
     .code_sha256 = "e43bb079938cb8970901b1cf2a06ed0881acbce4ea1ffdaa98a3170904c62fc3",
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
     .shared_bytes = 93184,
     .source_sha256 = "9f1a04c1e4b15dfb054b43bd12af178ea95f784bcc3205cf9fecf3556d876629",
     .code_sha256 = "f38af08244a0f696411caa71a7450086a316b2a1d5b085eb796d882e46995c25",
     .launch = &kda_state_k64_bf16},
    {.name = "kda_state_k64_bf16_varlen",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 93184,
     .source_sha256 = "facd0914c3ed07d7d31f8b28c52ceff858f2ba4eea2c281889caf16cf31fb8ee",
     .code_sha256 = "2ab2802ac70f304f2e9b0b1ed01209f24900f66dea79950a60b19f87d9471f56",
     .launch = &kda_state_k64_bf16_varlen},
    {.name = "kda_state_k64_f16",
     .K = 64,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 93184,
     .source_sha256 = "b33c6f54c3b4b3485e1752b2c84be744411a5f2c4c7385e176fbaad647f492ee",
     .code_sha256 = "046098caa0c039baf79f441a4f21c32ec189f4b11fcc82da71d725c554807721",
     .launch = &kda_state_k64_f16},
    {.name = "kda_state_k64_f16_varlen",
     .K = 64,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 93184,
     .source_sha256 = "15243c91b87f307c5be2a1bf6cb884ea8b5600f10e905859d4733f58c35a15eb",
     .code_sha256 = "5c3968568ccf210682f0db1871aea96a01dbdd84ca6f5e947e098d4cc0fc5d64",
     .launch = &kda_state_k64_f16_varlen},
    {.name = "kda_state_k128_bf16",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 151552,
     .source_sha256 = "20a4b067a399f0333af8ffa3050738f5aefd1acf87196718c876dc2a452c74be",
     .code_sha256 = "f382ac33741917128c8f5831d56e36f37506ad477dc847d10461fa75fb1d34e1",
     .launch = &kda_state_k128_bf16},
    {.name = "kda_state_k128_bf16_varlen",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 151552,
     .source_sha256 = "66b86c6cc1535386e792b5a1e6e2e1cf0c7d1054c49641148f4c8cf4dd3082f3",
     .code_sha256 = "10e1e84f98883c434fc2f33576ce2e7cc069aea6a3b80bf3292a6ae7dd0a100b",
     .launch = &kda_state_k128_bf16_varlen},
    {.name = "kda_state_k128_f16",
     .K = 128,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 151552,
     .source_sha256 = "b9c9841572961954370de23faaa983bc465b52fc5bcf038c49871cf8dadf56d7",
     .code_sha256 = "9bc8ed4f489e92e9d52cfcc6ebd403623449697ad9e255f308bfac8a02d56e69",
     .launch = &kda_state_k128_f16},
    {.name = "kda_state_k128_f16_varlen",
     .K = 128,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 151552,
     .source_sha256 = "72f5c64651858ee9b951dd65304a41a5be1c9538b06fd1581a967c3131a18f97",
     .code_sha256 = "d95b7ae70d8c3efa3fc45b6e99cc315a824ff17f22e638eb19c2f5c2507fca8b",
     .launch = &kda_state_k128_f16_varlen},
    {.name = "kda_state_k256_bf16",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 158720,
     .source_sha256 = "0bbaa87925b707447da629b388a3dd5d3ebec6763b73e39fcc6d8a5caad8200d",
     .code_sha256 = "a5c972f2f54c6ac9cc94d6dcb783aa913aa9a65eb6af0c1685a6b04f747eea38",
     .launch = &kda_state_k256_bf16},
    {.name = "kda_state_k256_bf16_varlen",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 158720,
     .source_sha256 = "0399a7d421d9bad32c9f5a37b585bce521febe5732efe04b3a5e653241761062",
     .code_sha256 = "6550b52aa6b413c3ac66bf82a20e0506dfedbd65dd389731a032e5ff7d3ab923",
     .launch = &kda_state_k256_bf16_varlen},
    {.name = "kda_state_k256_f16",
     .K = 256,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 158720,
     .source_sha256 = "06f8e3c7c64388880310fdb9efc1d12101148115c4da3f6617dca828319dbea2",
     .code_sha256 = "f85f44fe911ea8eeb739b531538000d4679437402d9c9af51810cc0bbc95bf27",
     .launch = &kda_state_k256_f16},
    {.name = "kda_state_k256_f16_varlen",
     .K = 256,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, final_state, initial_state, o, operators, read_slots, triangles, v, vectors, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 158720,
     .source_sha256 = "5479783b1ae75caa58d0964935c23dd540cdf6c515c606779c7b59da6db3d0e3",
     .code_sha256 = "bb22d42af5f572ac11b70730bfc905a47ecc00a638e87f9eaa03c5b54e958502",
     .launch = &kda_state_k256_f16_varlen},
};

}  // namespace fla::tilelang::generated
