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
  void* decays = nullptr;  ///< float32*
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
     .signature = "A_log, A_log_f32, beta, beta_f32, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 71680,
     .source_sha256 = "ff50a205cee6a65b877df49196df92c1288d74057cb9dcd34704c5c2e5aff504",
     .code_sha256 = "2847336eb6bacf1a4e7922f44cb4a0710d43a5ad666511c36f6c64e008b0f879",
     .launch = &kda_prepare_k64_bf16},
    {.name = "kda_prepare_k64_bf16_varlen",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 71680,
     .source_sha256 = "5d0ac1607a71ded43908771f3c2c50e43d3905e8ac99c3256f9ffbe6f859cacc",
     .code_sha256 = "262ad65c5081fd5139d4ac8c6bb4d27914ec5e0c93a3e6fbfdef999301c77809",
     .launch = &kda_prepare_k64_bf16_varlen},
    {.name = "kda_prepare_k64_f16",
     .K = 64,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 71680,
     .source_sha256 = "cebafa0879c887d994ffa8799ff11f886723ea9623a3097994174e640a6ee3e9",
     .code_sha256 = "8ef37e513d2783337f93fa602f902ce34fb7a66881447f4016114e4fb965cf9d",
     .launch = &kda_prepare_k64_f16},
    {.name = "kda_prepare_k64_f16_varlen",
     .K = 64,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 128,
     .shared_bytes = 71680,
     .source_sha256 = "9eceba2727c2ce4037130f1e0f2ea41a56ae91306b77182670529537a81f5fad",
     .code_sha256 = "b7b34c49bd1463f8e7709933c4d3c2e0e8341018a222129bf87466b828bc8065",
     .launch = &kda_prepare_k64_f16_varlen},
    {.name = "kda_prepare_k128_bf16",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 104448,
     .source_sha256 = "abc57a471f9842190a0073d1c047512cb39f486a69495865072aa8c6e5c8f801",
     .code_sha256 = "a47ab31dcf9c7a93dc8ad09098f814182d89969ca7eb894d18ac12ada7bf40b9",
     .launch = &kda_prepare_k128_bf16},
    {.name = "kda_prepare_k128_bf16_varlen",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 104448,
     .source_sha256 = "ff55eac6b9c2e27269746df7daef295e32424a6d276b7cf4e6651b3b99876d0d",
     .code_sha256 = "e1f6316184c8f05152dead612166d8798b323a804575ffe330f75f5202e2f025",
     .launch = &kda_prepare_k128_bf16_varlen},
    {.name = "kda_prepare_k128_f16",
     .K = 128,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 104448,
     .source_sha256 = "b56059df95fb7055b80bd95a00633b9ae4094abac56fa24d97b48db58bc0a65b",
     .code_sha256 = "2600ef11a295316ee71df20cac6e1426d913f3b1c3c3a8695ca45337bec39751",
     .launch = &kda_prepare_k128_f16},
    {.name = "kda_prepare_k128_f16_varlen",
     .K = 128,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 256,
     .shared_bytes = 104448,
     .source_sha256 = "96d0811ddb8e4c75394e6bfd616d849671b8f11e07b6979e6385e2c767b34364",
     .code_sha256 = "5ab80f7ea123beb1c8c9cef13bc5a84997f64c7dcbecee8b0c17b17e20d278d1",
     .launch = &kda_prepare_k128_f16_varlen},
    {.name = "kda_prepare_k256_bf16",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 173056,
     .source_sha256 = "471f16c16fca5e9d2fb88197f295a9de326ee84d6d84a60a73984512e2ecf2a8",
     .code_sha256 = "1525b89ee7c8d72a58351b77e5f43334c1be22b2fde770ee690a44e3d065eb71",
     .launch = &kda_prepare_k256_bf16},
    {.name = "kda_prepare_k256_bf16_varlen",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 173056,
     .source_sha256 = "f73108eb818ac69091678781a66ade46ffbec575ac66d6f0a58e3c625c011902",
     .code_sha256 = "060e75478f3ae490aceb1bf1e09aa745340747e9e3474de84efb8a6f6dd0387c",
     .launch = &kda_prepare_k256_bf16_varlen},
    {.name = "kda_prepare_k256_f16",
     .K = 256,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "A_log, A_log_f32, beta, beta_f32, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 173056,
     .source_sha256 = "cd4e468de14f738cfc8ba7c3648d5df8ee7a45aa8c71aaa6b70b7f167d0fddd0",
     .code_sha256 = "dc7c819776c57c34377dc11ae274110e7cf3490eaf98e8935545abf9806fd35c",
     .launch = &kda_prepare_k256_f16},
    {.name = "kda_prepare_k256_f16_varlen",
     .K = 256,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "A_log, A_log_f32, beta, beta_f32, cu_seqlens, decays, dt_bias, dt_bias_f32, g, g_f32, k, operators, q, triangles, A_log_head, A_log_is_f32, HV, N, beta_batch, beta_factor, beta_head, beta_is_f32, beta_sigmoid, beta_token, cu_seqlens_stride, cu_seqlens_wide, dt_bias_channel, dt_bias_head, dt_bias_is_f32, g_batch, g_channel, g_head, g_is_f32, g_token, gate, group, has_A_log, has_dt_bias, k_batch, k_head, k_token, l2norm, lower_bound, places, q_batch, q_head, q_token, search_steps, tokens",
     .grid = "places * HV",
     .block = 512,
     .shared_bytes = 173056,
     .source_sha256 = "e92369135412ee1f3b51d855e679557270310eb841179fc87dae786e2b210cc1",
     .code_sha256 = "09335efd8773c3420c81b31db78ff522c911a18e7784436b49a1615a309d5702",
     .launch = &kda_prepare_k256_f16_varlen},
};

/// The arguments of kda_state, as kda_state.py describes them.
struct KdaState {
  void* operators = nullptr;
  void* triangles = nullptr;
  void* decays = nullptr;  ///< float32*
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
     .signature = "decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 91136,
     .source_sha256 = "af7a1683133b546f3249b0923f0799da5d03a1bd232155c5eb497f0b11c54818",
     .code_sha256 = "e526dc4536bc62d36af2757410ba4d8af65b8a65029ff82232c8d9a42ead0ec2",
     .launch = &kda_state_k64_bf16},
    {.name = "kda_state_k64_bf16_varlen",
     .K = 64,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 91136,
     .source_sha256 = "5b758480d4e6d132a18f71678cd4a039b852da5f30a660a6c4b1a24467be8d68",
     .code_sha256 = "67dcd2cfb0ee4a4f225034f86d6c33a4b921885aa7b4456114cfd837dbb55860",
     .launch = &kda_state_k64_bf16_varlen},
    {.name = "kda_state_k64_f16",
     .K = 64,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 91136,
     .source_sha256 = "4393813ee0f993232868669d3d514884f676cf642cf8d146867911c61cf65a8e",
     .code_sha256 = "2850dabacd3f994e8f36e4c34bb8dbf1079e62e0f10193b46679fee2be9fedba",
     .launch = &kda_state_k64_f16},
    {.name = "kda_state_k64_f16_varlen",
     .K = 64,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 91136,
     .source_sha256 = "dde89f85a949383bbeadad10b762329f576d76c67707725fe16dded992a4c1ea",
     .code_sha256 = "91d14b6f137b6a513f28666c59d4757f159c51836aecb918479153f3427cdf53",
     .launch = &kda_state_k64_f16_varlen},
    {.name = "kda_state_k128_bf16",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 148480,
     .source_sha256 = "6f1d687fde84f395d356cdf501cac03c344f5708335ad29b59e42afc11950727",
     .code_sha256 = "f082861dd9cc71f14ffb6b3fd6b5891d362398dce7760a8d78939fdae73281a6",
     .launch = &kda_state_k128_bf16},
    {.name = "kda_state_k128_bf16_varlen",
     .K = 128,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 148480,
     .source_sha256 = "729e79629e5b8e0fe8d54497783a17bb23b9c51d33fe81bbd2784a38c9b117ac",
     .code_sha256 = "4431eb211007df056be46f1f875762003e1b350ca36069e287ffd1e2107e905d",
     .launch = &kda_state_k128_bf16_varlen},
    {.name = "kda_state_k128_f16",
     .K = 128,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 148480,
     .source_sha256 = "1db1d9ee1382a990497d61583aface4e88bc2bf03a5dab8e5783d3d23d44e03e",
     .code_sha256 = "f6920379aa060dee1da9fc65af4654935fb0d24210c54501f456a4d6e333dced",
     .launch = &kda_state_k128_f16},
    {.name = "kda_state_k128_f16_varlen",
     .K = 128,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 148480,
     .source_sha256 = "3cc0c29cf3d78145378e2aa46871a2fee8d1ff748fa5ee5cbd3b50daa8ee6e0c",
     .code_sha256 = "3f9c522dff2e801e624808be953cab7c570a44899e8cd622c5a8a8232c06c4e0",
     .launch = &kda_state_k128_f16_varlen},
    {.name = "kda_state_k256_bf16",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = false,
     .signature = "decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 156672,
     .source_sha256 = "64dc111306a0a6c598a34d7fb94ce3ea9bd17239e23a8c5ee77f1ed319774dd9",
     .code_sha256 = "4f49bc4d63018f96b4ffb08fad190a0f9da3f11224eaffac986749363c3eeecb",
     .launch = &kda_state_k256_bf16},
    {.name = "kda_state_k256_bf16_varlen",
     .K = 256,
     .dtype = DType::bf16,
     .varlen = true,
     .signature = "cu_seqlens, decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 156672,
     .source_sha256 = "3a22780432bcbcb28bc39805f823cde3a13cf5db6d4a1b646e10297756def668",
     .code_sha256 = "d185ca12e818182d52bc318c9ef843a0a68c40fe4a45c229980daaf9c19a10c5",
     .launch = &kda_state_k256_bf16_varlen},
    {.name = "kda_state_k256_f16",
     .K = 256,
     .dtype = DType::f16,
     .varlen = false,
     .signature = "decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 156672,
     .source_sha256 = "e1b3ee59b0da1ef28c04fec023ef5d12572c7a23948d1f53c6c64ac9a6440bbd",
     .code_sha256 = "c1c97cfcc2ed02814c29ae0a02508cd82233a1afd4b81283148b39247e963244",
     .launch = &kda_state_k256_f16},
    {.name = "kda_state_k256_f16_varlen",
     .K = 256,
     .dtype = DType::f16,
     .varlen = true,
     .signature = "cu_seqlens, decays, final_state, initial_state, o, operators, read_slots, triangles, v, write_slots, HV, N, V, cu_seqlens_stride, cu_seqlens_wide, final_head, final_key, final_slot, final_value, has_final, has_initial, has_read_slots, has_write_slots, initial_head, initial_key, initial_slot, initial_value, o_batch, o_head, o_token, pool, read_slots_stride, read_slots_wide, scale, tokens, v_batch, v_head, v_token, write_slots_stride, write_slots_wide",
     .grid = "N * HV * (V / 64)",
     .block = 128,
     .shared_bytes = 156672,
     .source_sha256 = "252fd1f83d565d921f5c6defd9d15bc9feb69dd0d57be4ff5c423de28c78dd7b",
     .code_sha256 = "3065ca74567287f812eac0c78fa7f08ccc0bf12bbf59c461691ba2a101e06432",
     .launch = &kda_state_k256_f16_varlen},
};

}  // namespace fla::tilelang::generated
