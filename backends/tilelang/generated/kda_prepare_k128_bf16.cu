// Made by tools/tilelang_aot with tilelang 0.1.15 from kda_prepare.py; not to be edited.

#include "backends/tilelang/generated/instances.h"

#include <tl_templates/cuda/instruction/wgmma.h>
#include <tl_templates/cuda/intrin.h>
#include <tl_templates/cuda/barrier.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>

#include "backends/tilelang/launch.cuh"

namespace fla::tilelang::generated {

static __global__ void __launch_bounds__(256, 2) kda_prepare_k128_bf16_kernel(const bfloat16_t* __restrict__ A_log, const float* __restrict__ A_log_f32, const bfloat16_t* __restrict__ beta, const float* __restrict__ beta_f32, float* __restrict__ decays, const bfloat16_t* __restrict__ dt_bias, const float* __restrict__ dt_bias_f32, const bfloat16_t* __restrict__ g, const float* __restrict__ g_f32, const bfloat16_t* __restrict__ k, half_t* __restrict__ operators, const bfloat16_t* __restrict__ q, half_t* __restrict__ triangles, int64_t A_log_head, int A_log_is_f32, int HV, int64_t beta_batch, float beta_factor, int64_t beta_head, int beta_is_f32, int beta_sigmoid, int64_t beta_token, int64_t dt_bias_channel, int64_t dt_bias_head, int dt_bias_is_f32, int64_t g_batch, int64_t g_channel, int64_t g_head, int g_is_f32, int g_token, int gate, int group, int has_A_log, int has_dt_bias, int64_t k_batch, int64_t k_head, int64_t k_token, int l2norm, float lower_bound, int places, int64_t q_batch, int64_t q_head, int64_t q_token, int tokens) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* G = ((void*)((char*)buf_dyn_shmem + 0));
  void* Pt = ((void*)((char*)buf_dyn_shmem + 0));
  void* betas = ((void*)((char*)buf_dyn_shmem + 32768));
  void* owns = ((void*)((char*)buf_dyn_shmem + 33024));
  void* M = ((void*)((char*)buf_dyn_shmem + 33792));
  void* rows_q = ((void*)((char*)buf_dyn_shmem + 33792));
  void* L = ((void*)((char*)buf_dyn_shmem + 41984));
  void* rows_k = ((void*)((char*)buf_dyn_shmem + 50176));
  void* B = ((void*)((char*)buf_dyn_shmem + 66560));
  void* diagonal = ((void*)((char*)buf_dyn_shmem + 66560));
  void* X = ((void*)((char*)buf_dyn_shmem + 71680));
  void* Xt = ((void*)((char*)buf_dyn_shmem + 79872));
  void* remaining = ((void*)((char*)buf_dyn_shmem + 88064));
  int head = 0;
  int place = 0;
  int batch = 0;
  int first = 0;
  int count = 0;
  bfloat16_t q_rows[32];
  bfloat16_t k_rows[32];
  int64_t g_first = (int64_t)0;
  float rate = 0x0p+0f/*0.000000e+00*/;
  float bias = 0x0p+0f/*0.000000e+00*/;
  float decay = 0x0p+0f/*0.000000e+00*/;
  float raw[32];
  float sums[32];
  float q_factor[4];
  float k_factor[4];
  float own[4];
  half_t q_unit[32];
  half_t k_unit[32];
  float pairs_q[16];
  float pairs_k[16];
  half_t kept[32];
  float of_q[16];
  float of_k[16];
  float solution[16];
  float Kr[32];
  head = (((int)blockIdx.x) % HV);
  place = (((int)blockIdx.x) / HV);
  batch = (place / ((tokens + 63) >> 6));
  first = ((place % ((tokens + 63) >> 6)) * 64);
  count = (tokens - first);
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    bfloat16_t broadcast_var = bfloat16_t(0x0p+0f/*0.000000e+00*/);
    uint4 condval;
    if ((((i * 16) + (((int)threadIdx.x) >> 4)) < count)) {
      condval = *(uint4*)(q + (((((((int64_t)batch) * q_batch) * (int64_t)8) + (((((int64_t)first) + ((int64_t)min(((i * 16) + (((int)threadIdx.x) >> 4)), (count - 1)))) * q_token) * (int64_t)8)) + ((((int64_t)(head / group)) * q_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
    } else {
      condval = make_uint4(__pack_nv_bfloat162(broadcast_var, broadcast_var), __pack_nv_bfloat162(broadcast_var, broadcast_var), __pack_nv_bfloat162(broadcast_var, broadcast_var), __pack_nv_bfloat162(broadcast_var, broadcast_var));
    }
    *(uint4*)(q_rows + (i * 8)) = condval;
  }
  #pragma unroll
  for (int i_1 = 0; i_1 < 4; ++i_1) {
    bfloat16_t broadcast_var_1 = bfloat16_t(0x0p+0f/*0.000000e+00*/);
    uint4 condval_1;
    if ((((i_1 * 16) + (((int)threadIdx.x) >> 4)) < count)) {
      condval_1 = *(uint4*)(k + (((((((int64_t)batch) * k_batch) * (int64_t)8) + (((((int64_t)first) + ((int64_t)min(((i_1 * 16) + (((int)threadIdx.x) >> 4)), (count - 1)))) * k_token) * (int64_t)8)) + ((((int64_t)(head / group)) * k_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
    } else {
      condval_1 = make_uint4(__pack_nv_bfloat162(broadcast_var_1, broadcast_var_1), __pack_nv_bfloat162(broadcast_var_1, broadcast_var_1), __pack_nv_bfloat162(broadcast_var_1, broadcast_var_1), __pack_nv_bfloat162(broadcast_var_1, broadcast_var_1));
    }
    *(uint4*)(k_rows + (i_1 * 8)) = condval_1;
  }
  g_first = ((((((int64_t)batch) * g_batch) + (((int64_t)first) * ((int64_t)g_token))) + (((int64_t)head) * g_head)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)127) * g_channel));
  rate = 0x0p+0f/*0.000000e+00*/;
  bias = 0x0p+0f/*0.000000e+00*/;
  decay = 0x0p+0f/*0.000000e+00*/;
  if (has_A_log != 0) {
    if (A_log_is_f32 != 0) {
      rate = A_log_f32[(((int64_t)head) * A_log_head)];
    } else {
      rate = ((float)A_log[(((int64_t)head) * A_log_head)]);
    }
  }
  rate = expf(rate);
  if (has_dt_bias != 0) {
    if (dt_bias_is_f32 != 0) {
      bias = dt_bias_f32[((((int64_t)head) * dt_bias_head) + ((((int64_t)((int)threadIdx.x)) & (int64_t)127) * dt_bias_channel))];
    } else {
      bias = ((float)dt_bias[((((int64_t)head) * dt_bias_head) + ((((int64_t)((int)threadIdx.x)) & (int64_t)127) * dt_bias_channel))]);
    }
  }
  if (g_is_f32 != 0) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 32; ++i_2) {
      raw[i_2] = g_f32[(g_first + ((int64_t)(min((((((int)threadIdx.x) >> 7) * 32) + i_2), (count - 1)) * g_token)))];
    }
  } else {
    #pragma unroll
    for (int i_3 = 0; i_3 < 32; ++i_3) {
      raw[i_3] = ((float)g[(g_first + ((int64_t)(min((((((int)threadIdx.x) >> 7) * 32) + i_3), (count - 1)) * g_token)))]);
    }
  }
  if (gate == 1) {
    #pragma unroll
    for (int i_4 = 0; i_4 < 32; ++i_4) {
      raw[i_4] = ((rate * -0x1p+0f/*-1.000000e+00*/) * (max((raw[i_4] + bias), 0x0p+0f/*0.000000e+00*/) + log1pf(expf((fabsf((raw[i_4] + bias)) * -0x1p+0f/*-1.000000e+00*/)))));
    }
  }
  if (gate == 2) {
    #pragma unroll
    for (int i_5 = 0; i_5 < 32; ++i_5) {
      float condval_2;
      if ((0x0p+0f/*0.000000e+00*/ <= (rate * (raw[i_5] + bias)))) {
        condval_2 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_2 = expf((fabsf((rate * (raw[i_5] + bias))) * -0x1p+0f/*-1.000000e+00*/));
      }
      raw[i_5] = (lower_bound * (condval_2 / (0x1p+0f/*1.000000e+00*/ + expf((fabsf((rate * (raw[i_5] + bias))) * -0x1p+0f/*-1.000000e+00*/)))));
    }
  }
  #pragma unroll
  for (int i_6 = 0; i_6 < 32; ++i_6) {
    float condval_3;
    if (((((((int)threadIdx.x) >> 7) * 32) + i_6) < count)) {
      condval_3 = max((0x1.71547652b82fep+0f/*1.442695e+00*/ * raw[i_6]), -0x1.4p+7f/*-1.600000e+02*/);
    } else {
      condval_3 = 0x0p+0f/*0.000000e+00*/;
    }
    decay = (decay + condval_3);
    ((float*)G)[((((((((int)threadIdx.x) >> 7) * 4096) + (i_6 * 128)) + (((((int)threadIdx.x) & 7) >> 2) * 64)) + (((((int)threadIdx.x) & 127) >> 3) * 4)) + (((int)threadIdx.x) & 3))] = decay;
  }
  if (((int)threadIdx.x) < 64) {
    if (beta_is_f32 != 0) {
      rate = beta_f32[(((((int64_t)batch) * beta_batch) + ((((int64_t)first) + ((int64_t)min(((int)threadIdx.x), (count - 1)))) * beta_token)) + (((int64_t)head) * beta_head))];
    } else {
      rate = ((float)beta[(((((int64_t)batch) * beta_batch) + ((((int64_t)first) + ((int64_t)min(((int)threadIdx.x), (count - 1)))) * beta_token)) + (((int64_t)head) * beta_head))]);
    }
    if (beta_sigmoid != 0) {
      float condval_4;
      if ((0x0p+0f/*0.000000e+00*/ <= rate)) {
        condval_4 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_4 = expf((fabsf(rate) * -0x1p+0f/*-1.000000e+00*/));
      }
      rate = (beta_factor * (condval_4 / (0x1p+0f/*1.000000e+00*/ + expf((fabsf(rate) * -0x1p+0f/*-1.000000e+00*/)))));
    }
    float condval_5;
    if ((((int)threadIdx.x) < count)) {
      condval_5 = rate;
    } else {
      condval_5 = 0x0p+0f/*0.000000e+00*/;
    }
    ((float*)betas)[((int)threadIdx.x)] = condval_5;
  }
  #pragma unroll
  for (int i_7 = 0; i_7 < 8; ++i_7) {
    float4 __1;
      float4 __2;
      uint2 v_ = *(uint2*)(q_rows + (i_7 * 4));
      ((float2*)(&__2))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v_))[0]);
      ((float2*)(&__2))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v_))[1]);
      float4 __3;
      ((float2*)(&__3))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v_))[0]);
      ((float2*)(&__3))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v_))[1]);
      __1.x = (__2.x*__3.x);
      __1.y = (__2.y*__3.y);
      __1.z = (__2.z*__3.z);
      __1.w = (__2.w*__3.w);
    *(float4*)(sums + (i_7 * 4)) = __1;
  }
  #pragma unroll
  for (int i_8 = 0; i_8 < 4; ++i_8) {
    q_factor[i_8] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv = 0; rv < 8; ++rv) {
      q_factor[i_8] = (q_factor[i_8] + sums[((i_8 * 8) + rv)]);
    }
    q_factor[i_8] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<256>>::run(q_factor[i_8]);
  }
  #pragma unroll
  for (int i_9 = 0; i_9 < 8; ++i_9) {
    float4 __4;
      float4 __5;
      uint2 v__1 = *(uint2*)(k_rows + (i_9 * 4));
      ((float2*)(&__5))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__1))[0]);
      ((float2*)(&__5))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__1))[1]);
      float4 __6;
      ((float2*)(&__6))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__1))[0]);
      ((float2*)(&__6))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__1))[1]);
      __4.x = (__5.x*__6.x);
      __4.y = (__5.y*__6.y);
      __4.z = (__5.z*__6.z);
      __4.w = (__5.w*__6.w);
    *(float4*)(sums + (i_9 * 4)) = __4;
  }
  #pragma unroll
  for (int i_10 = 0; i_10 < 4; ++i_10) {
    k_factor[i_10] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_1 = 0; rv_1 < 8; ++rv_1) {
      k_factor[i_10] = (k_factor[i_10] + sums[((i_10 * 8) + rv_1)]);
    }
    k_factor[i_10] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<256>>::run(k_factor[i_10]);
  }
  #pragma unroll
  for (int i_11 = 0; i_11 < 8; ++i_11) {
    float4 __7;
      float4 __8;
      uint2 v__2 = *(uint2*)(q_rows + (i_11 * 4));
      ((float2*)(&__8))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__2))[0]);
      ((float2*)(&__8))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__2))[1]);
      float4 __9;
      uint2 v__3 = *(uint2*)(k_rows + (i_11 * 4));
      ((float2*)(&__9))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__3))[0]);
      ((float2*)(&__9))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__3))[1]);
      __7.x = (__8.x*__9.x);
      __7.y = (__8.y*__9.y);
      __7.z = (__8.z*__9.z);
      __7.w = (__8.w*__9.w);
    *(float4*)(sums + (i_11 * 4)) = __7;
  }
  #pragma unroll
  for (int i_12 = 0; i_12 < 4; ++i_12) {
    own[i_12] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_2 = 0; rv_2 < 8; ++rv_2) {
      own[i_12] = (own[i_12] + sums[((i_12 * 8) + rv_2)]);
    }
    own[i_12] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<256>>::run(own[i_12]);
  }
  #pragma unroll
  for (int i_13 = 0; i_13 < 4; ++i_13) {
    float condval_6;
    if ((l2norm != 0)) {
      condval_6 = rsqrtf((q_factor[i_13] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
    } else {
      condval_6 = 0x1p+0f/*1.000000e+00*/;
    }
    q_factor[i_13] = condval_6;
    float condval_7;
    if ((l2norm != 0)) {
      condval_7 = rsqrtf((k_factor[i_13] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
    } else {
      condval_7 = 0x1p+0f/*1.000000e+00*/;
    }
    k_factor[i_13] = condval_7;
    ((float*)owns)[((i_13 * 16) + (((int)threadIdx.x) >> 4))] = ((own[i_13] * q_factor[i_13]) * k_factor[i_13]);
  }
  #pragma unroll
  for (int i_14 = 0; i_14 < 8; ++i_14) {
    uint2 __10;
    float4 __11;
      float4 __12;
      uint2 v__4 = *(uint2*)(q_rows + (i_14 * 4));
      ((float2*)(&__12))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__4))[0]);
      ((float2*)(&__12))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__4))[1]);
      float4 v__5 = make_float4(q_factor[(i_14 >> 1)], q_factor[(i_14 >> 1)], q_factor[(i_14 >> 1)], q_factor[(i_14 >> 1)]);
      __11.x = (__12.x*v__5.x);
      __11.y = (__12.y*v__5.y);
      __11.z = (__12.z*v__5.z);
      __11.w = (__12.w*v__5.w);
    ((half2*)(&__10))[0] = __float22half2_rn(((float2*)(&__11))[0]);
    ((half2*)(&__10))[1] = __float22half2_rn(((float2*)(&__11))[1]);
    *(uint2*)(q_unit + (i_14 * 4)) = __10;
  }
  #pragma unroll
  for (int i_15 = 0; i_15 < 8; ++i_15) {
    uint2 __13;
    float4 __14;
      float4 __15;
      uint2 v__6 = *(uint2*)(k_rows + (i_15 * 4));
      ((float2*)(&__15))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__6))[0]);
      ((float2*)(&__15))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__6))[1]);
      float4 v__7 = make_float4(k_factor[(i_15 >> 1)], k_factor[(i_15 >> 1)], k_factor[(i_15 >> 1)], k_factor[(i_15 >> 1)]);
      __14.x = (__15.x*v__7.x);
      __14.y = (__15.y*v__7.y);
      __14.z = (__15.z*v__7.z);
      __14.w = (__15.w*v__7.w);
    ((half2*)(&__13))[0] = __float22half2_rn(((float2*)(&__14))[0]);
    ((half2*)(&__13))[1] = __float22half2_rn(((float2*)(&__14))[1]);
    *(uint2*)(k_unit + (i_15 * 4)) = __13;
  }
  #pragma unroll
  for (int i_16 = 0; i_16 < 4; ++i_16) {
    float broadcast_var_2 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(pairs_q + (i_16 * 4)) = make_float4(broadcast_var_2, broadcast_var_2, broadcast_var_2, broadcast_var_2);
  }
  #pragma unroll
  for (int i_17 = 0; i_17 < 4; ++i_17) {
    float broadcast_var_3 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(pairs_k + (i_17 * 4)) = make_float4(broadcast_var_3, broadcast_var_3, broadcast_var_3, broadcast_var_3);
  }
  __syncthreads();
  #pragma unroll
  for (int i_18 = 0; i_18 < 8; ++i_18) {
    float G_local_cast[4];
    float G_local_cast_1[4];
    *(float4*)(G_local_cast + 0) = *(float4*)(((float*)G) + (((((i_18 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_18 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_1 + 0) = *(float4*)(((float*)G) + (((((i_18 >> 1) * 2048) + ((((int)threadIdx.x) >> 5) * 256)) + ((i_18 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    uint2 __16;
    float4 __17;
    float4 __18;
      float condval_8;
      if ((((((int)threadIdx.x) & 31) >> 4) == 1)) {
        condval_8 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_8 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__8 = make_float4(condval_8, condval_8, condval_8, condval_8);
      float4 __19;
        float4 v__9 = *(float4*)(G_local_cast + 0);
        float4 v__10 = *(float4*)(G_local_cast_1 + 0);
        __19.x = (v__9.x-v__10.x);
        __19.y = (v__9.y-v__10.y);
        __19.z = (v__9.z-v__10.z);
        __19.w = (v__9.w-v__10.w);
      __18.x = (v__8.x*__19.x);
      __18.y = (v__8.y*__19.y);
      __18.z = (v__8.z*__19.z);
      __18.w = (v__8.w*__19.w);
    __17.x = exp2f(__18.x);
    __17.y = exp2f(__18.y);
    __17.z = exp2f(__18.z);
    __17.w = exp2f(__18.w);
    ((half2*)(&__16))[0] = __float22half2_rn(((float2*)(&__17))[0]);
    ((half2*)(&__16))[1] = __float22half2_rn(((float2*)(&__17))[1]);
    *(uint2*)(kept + (i_18 * 4)) = __16;
  }
  #pragma unroll
  for (int i_19 = 0; i_19 < 4; ++i_19) {
    uint4 __20;
      uint4 v__11 = *(uint4*)(q_unit + (i_19 * 8));
      uint4 v__12 = *(uint4*)(kept + (i_19 * 8));
      *(uint1*)(&(__20.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__11.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__12.x)))));
      *(uint1*)(&(__20.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__11.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__12.y)))));
      *(uint1*)(&(__20.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__11.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__12.z)))));
      *(uint1*)(&(__20.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__11.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__12.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_19 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __20;
  }
  #pragma unroll
  for (int i_20 = 0; i_20 < 4; ++i_20) {
    uint4 __21;
      uint4 v__13 = *(uint4*)(k_unit + (i_20 * 8));
      uint4 v__14 = *(uint4*)(kept + (i_20 * 8));
      *(uint1*)(&(__21.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__13.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__14.x)))));
      *(uint1*)(&(__21.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__13.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__14.y)))));
      *(uint1*)(&(__21.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__13.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__14.z)))));
      *(uint1*)(&(__21.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__13.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__14.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_20 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __21;
  }
  {
    tl::GmmaDescriptor desc_a;
    tl::GmmaDescriptor desc_b;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki = 0; ki < 8; ++ki) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a + ((((ki >> 2) * 8192) + ((ki & 3) * 32)) >> 4)), uint64_t(desc_b + (((((ki >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki & 3) * 32)) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
  }
  {
    tl::GmmaDescriptor desc_a_1;
    tl::GmmaDescriptor desc_b_1;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_1, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_1, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_1 = 0; ki_1 < 8; ++ki_1) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_1 + ((((ki_1 >> 2) * 8192) + ((ki_1 & 3) * 32)) >> 4)), uint64_t(desc_b_1 + (((((ki_1 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_1 & 3) * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_1) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_21 = 0; i_21 < 16; ++i_21) {
    float condval_9;
    if ((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_21 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_21 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_21 & 1))) == 1)) {
      condval_9 = of_q[i_21];
    } else {
      condval_9 = pairs_q[i_21];
    }
    pairs_q[i_21] = condval_9;
    float condval_10;
    if ((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_21 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_21 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_21 & 1))) == 1)) {
      condval_10 = of_k[i_21];
    } else {
      condval_10 = pairs_k[i_21];
    }
    pairs_k[i_21] = condval_10;
  }
  #pragma unroll
  for (int i_22 = 0; i_22 < 8; ++i_22) {
    float G_local_cast_2[4];
    float G_local_cast_3[4];
    *(float4*)(G_local_cast_2 + 0) = *(float4*)(((float*)G) + (((((i_22 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_22 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_3 + 0) = *(float4*)(((float*)G) + ((((((i_22 >> 1) * 2048) + ((((int)threadIdx.x) >> 6) * 512)) + ((i_22 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 128));
    uint2 __22;
    float4 __23;
    float4 __24;
      float condval_11;
      if ((((((int)threadIdx.x) & 63) >> 5) == 1)) {
        condval_11 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_11 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__15 = make_float4(condval_11, condval_11, condval_11, condval_11);
      float4 __25;
        float4 v__16 = *(float4*)(G_local_cast_2 + 0);
        float4 v__17 = *(float4*)(G_local_cast_3 + 0);
        __25.x = (v__16.x-v__17.x);
        __25.y = (v__16.y-v__17.y);
        __25.z = (v__16.z-v__17.z);
        __25.w = (v__16.w-v__17.w);
      __24.x = (v__15.x*__25.x);
      __24.y = (v__15.y*__25.y);
      __24.z = (v__15.z*__25.z);
      __24.w = (v__15.w*__25.w);
    __23.x = exp2f(__24.x);
    __23.y = exp2f(__24.y);
    __23.z = exp2f(__24.z);
    __23.w = exp2f(__24.w);
    ((half2*)(&__22))[0] = __float22half2_rn(((float2*)(&__23))[0]);
    ((half2*)(&__22))[1] = __float22half2_rn(((float2*)(&__23))[1]);
    *(uint2*)(kept + (i_22 * 4)) = __22;
  }
  __syncthreads();
  #pragma unroll
  for (int i_23 = 0; i_23 < 4; ++i_23) {
    uint4 __26;
      uint4 v__18 = *(uint4*)(q_unit + (i_23 * 8));
      uint4 v__19 = *(uint4*)(kept + (i_23 * 8));
      *(uint1*)(&(__26.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__18.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__19.x)))));
      *(uint1*)(&(__26.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__18.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__19.y)))));
      *(uint1*)(&(__26.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__18.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__19.z)))));
      *(uint1*)(&(__26.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__18.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__19.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_23 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __26;
  }
  #pragma unroll
  for (int i_24 = 0; i_24 < 4; ++i_24) {
    uint4 __27;
      uint4 v__20 = *(uint4*)(k_unit + (i_24 * 8));
      uint4 v__21 = *(uint4*)(kept + (i_24 * 8));
      *(uint1*)(&(__27.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__20.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__21.x)))));
      *(uint1*)(&(__27.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__20.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__21.y)))));
      *(uint1*)(&(__27.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__20.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__21.z)))));
      *(uint1*)(&(__27.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__20.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__21.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_24 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __27;
  }
  {
    tl::GmmaDescriptor desc_a_2;
    tl::GmmaDescriptor desc_b_2;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_2, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_2, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_2 = 0; ki_2 < 8; ++ki_2) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_2 + ((((ki_2 >> 2) * 8192) + ((ki_2 & 3) * 32)) >> 4)), uint64_t(desc_b_2 + (((((ki_2 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_2 & 3) * 32)) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_2) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
  }
  {
    tl::GmmaDescriptor desc_a_3;
    tl::GmmaDescriptor desc_b_3;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_3, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_3, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_3 = 0; ki_3 < 8; ++ki_3) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_3 + ((((ki_3 >> 2) * 8192) + ((ki_3 & 3) * 32)) >> 4)), uint64_t(desc_b_3 + (((((ki_3 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_3 & 3) * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_3) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_25 = 0; i_25 < 16; ++i_25) {
    float condval_12;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_25 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_25 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_25 & 1))) >> 1) == 1)) {
      condval_12 = of_q[i_25];
    } else {
      condval_12 = pairs_q[i_25];
    }
    pairs_q[i_25] = condval_12;
    float condval_13;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_25 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_25 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_25 & 1))) >> 1) == 1)) {
      condval_13 = of_k[i_25];
    } else {
      condval_13 = pairs_k[i_25];
    }
    pairs_k[i_25] = condval_13;
  }
  #pragma unroll
  for (int i_26 = 0; i_26 < 8; ++i_26) {
    float G_local_cast_4[4];
    float G_local_cast_5[4];
    *(float4*)(G_local_cast_4 + 0) = *(float4*)(((float*)G) + (((((i_26 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_26 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_5 + 0) = *(float4*)(((float*)G) + ((((((i_26 >> 1) * 2048) + ((((int)threadIdx.x) >> 7) * 1024)) + ((i_26 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 384));
    uint2 __28;
    float4 __29;
    float4 __30;
      float condval_14;
      if ((((((int)threadIdx.x) & 127) >> 6) == 1)) {
        condval_14 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_14 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__22 = make_float4(condval_14, condval_14, condval_14, condval_14);
      float4 __31;
        float4 v__23 = *(float4*)(G_local_cast_4 + 0);
        float4 v__24 = *(float4*)(G_local_cast_5 + 0);
        __31.x = (v__23.x-v__24.x);
        __31.y = (v__23.y-v__24.y);
        __31.z = (v__23.z-v__24.z);
        __31.w = (v__23.w-v__24.w);
      __30.x = (v__22.x*__31.x);
      __30.y = (v__22.y*__31.y);
      __30.z = (v__22.z*__31.z);
      __30.w = (v__22.w*__31.w);
    __29.x = exp2f(__30.x);
    __29.y = exp2f(__30.y);
    __29.z = exp2f(__30.z);
    __29.w = exp2f(__30.w);
    ((half2*)(&__28))[0] = __float22half2_rn(((float2*)(&__29))[0]);
    ((half2*)(&__28))[1] = __float22half2_rn(((float2*)(&__29))[1]);
    *(uint2*)(kept + (i_26 * 4)) = __28;
  }
  __syncthreads();
  #pragma unroll
  for (int i_27 = 0; i_27 < 4; ++i_27) {
    uint4 __32;
      uint4 v__25 = *(uint4*)(q_unit + (i_27 * 8));
      uint4 v__26 = *(uint4*)(kept + (i_27 * 8));
      *(uint1*)(&(__32.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__25.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__26.x)))));
      *(uint1*)(&(__32.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__25.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__26.y)))));
      *(uint1*)(&(__32.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__25.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__26.z)))));
      *(uint1*)(&(__32.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__25.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__26.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_27 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __32;
  }
  #pragma unroll
  for (int i_28 = 0; i_28 < 4; ++i_28) {
    uint4 __33;
      uint4 v__27 = *(uint4*)(k_unit + (i_28 * 8));
      uint4 v__28 = *(uint4*)(kept + (i_28 * 8));
      *(uint1*)(&(__33.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__27.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__28.x)))));
      *(uint1*)(&(__33.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__27.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__28.y)))));
      *(uint1*)(&(__33.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__27.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__28.z)))));
      *(uint1*)(&(__33.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__27.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__28.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_28 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __33;
  }
  {
    tl::GmmaDescriptor desc_a_4;
    tl::GmmaDescriptor desc_b_4;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_4, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_4, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_4 = 0; ki_4 < 8; ++ki_4) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_4 + ((((ki_4 >> 2) * 8192) + ((ki_4 & 3) * 32)) >> 4)), uint64_t(desc_b_4 + (((((ki_4 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_4 & 3) * 32)) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_4) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
  }
  {
    tl::GmmaDescriptor desc_a_5;
    tl::GmmaDescriptor desc_b_5;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_5, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_5, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_5 = 0; ki_5 < 8; ++ki_5) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_5 + ((((ki_5 >> 2) * 8192) + ((ki_5 & 3) * 32)) >> 4)), uint64_t(desc_b_5 + (((((ki_5 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_5 & 3) * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_5) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_29 = 0; i_29 < 16; ++i_29) {
    float condval_15;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_29 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_29 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_29 & 1))) >> 2) == 1)) {
      condval_15 = of_q[i_29];
    } else {
      condval_15 = pairs_q[i_29];
    }
    pairs_q[i_29] = condval_15;
    float condval_16;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_29 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_29 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_29 & 1))) >> 2) == 1)) {
      condval_16 = of_k[i_29];
    } else {
      condval_16 = pairs_k[i_29];
    }
    pairs_k[i_29] = condval_16;
  }
  #pragma unroll
  for (int i_30 = 0; i_30 < 8; ++i_30) {
    float G_local_cast_6[4];
    float G_local_cast_7[4];
    *(float4*)(G_local_cast_6 + 0) = *(float4*)(((float*)G) + (((((i_30 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_30 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_7 + 0) = *(float4*)(((float*)G) + (((((i_30 >> 1) * 2048) + ((i_30 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 896));
    uint2 __34;
    float4 __35;
    float4 __36;
      float condval_17;
      if (((((int)threadIdx.x) >> 7) == 1)) {
        condval_17 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_17 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__29 = make_float4(condval_17, condval_17, condval_17, condval_17);
      float4 __37;
        float4 v__30 = *(float4*)(G_local_cast_6 + 0);
        float4 v__31 = *(float4*)(G_local_cast_7 + 0);
        __37.x = (v__30.x-v__31.x);
        __37.y = (v__30.y-v__31.y);
        __37.z = (v__30.z-v__31.z);
        __37.w = (v__30.w-v__31.w);
      __36.x = (v__29.x*__37.x);
      __36.y = (v__29.y*__37.y);
      __36.z = (v__29.z*__37.z);
      __36.w = (v__29.w*__37.w);
    __35.x = exp2f(__36.x);
    __35.y = exp2f(__36.y);
    __35.z = exp2f(__36.z);
    __35.w = exp2f(__36.w);
    ((half2*)(&__34))[0] = __float22half2_rn(((float2*)(&__35))[0]);
    ((half2*)(&__34))[1] = __float22half2_rn(((float2*)(&__35))[1]);
    *(uint2*)(kept + (i_30 * 4)) = __34;
  }
  __syncthreads();
  #pragma unroll
  for (int i_31 = 0; i_31 < 4; ++i_31) {
    uint4 __38;
      uint4 v__32 = *(uint4*)(q_unit + (i_31 * 8));
      uint4 v__33 = *(uint4*)(kept + (i_31 * 8));
      *(uint1*)(&(__38.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__32.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__33.x)))));
      *(uint1*)(&(__38.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__32.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__33.y)))));
      *(uint1*)(&(__38.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__32.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__33.z)))));
      *(uint1*)(&(__38.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__32.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__33.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_31 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __38;
  }
  #pragma unroll
  for (int i_32 = 0; i_32 < 4; ++i_32) {
    uint4 __39;
      uint4 v__34 = *(uint4*)(k_unit + (i_32 * 8));
      uint4 v__35 = *(uint4*)(kept + (i_32 * 8));
      *(uint1*)(&(__39.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__34.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__35.x)))));
      *(uint1*)(&(__39.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__34.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__35.y)))));
      *(uint1*)(&(__39.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__34.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__35.z)))));
      *(uint1*)(&(__39.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__34.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__35.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_32 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __39;
  }
  {
    tl::GmmaDescriptor desc_a_6;
    tl::GmmaDescriptor desc_b_6;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_6, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_6, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_6 = 0; ki_6 < 8; ++ki_6) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_6 + ((((ki_6 >> 2) * 8192) + ((ki_6 & 3) * 32)) >> 4)), uint64_t(desc_b_6 + (((((ki_6 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_6 & 3) * 32)) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_6) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
  }
  {
    tl::GmmaDescriptor desc_a_7;
    tl::GmmaDescriptor desc_b_7;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_7, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_7, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_7 = 0; ki_7 < 8; ++ki_7) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_7 + ((((ki_7 >> 2) * 8192) + ((ki_7 & 3) * 32)) >> 4)), uint64_t(desc_b_7 + (((((ki_7 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_7 & 3) * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_7) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_33 = 0; i_33 < 16; ++i_33) {
    float condval_18;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_33 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_33 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_33 & 1))) >> 3) == 1)) {
      condval_18 = of_q[i_33];
    } else {
      condval_18 = pairs_q[i_33];
    }
    pairs_q[i_33] = condval_18;
    float condval_19;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_33 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_33 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_33 & 1))) >> 3) == 1)) {
      condval_19 = of_k[i_33];
    } else {
      condval_19 = pairs_k[i_33];
    }
    pairs_k[i_33] = condval_19;
  }
  #pragma unroll
  for (int i_34 = 0; i_34 < 8; ++i_34) {
    float G_local_cast_8[4];
    float G_local_cast_9[4];
    *(float4*)(G_local_cast_8 + 0) = *(float4*)(((float*)G) + (((((i_34 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_34 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_9 + 0) = *(float4*)(((float*)G) + (((((i_34 >> 2) * 4096) + ((i_34 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 1920));
    uint2 __40;
    float4 __41;
    float4 __42;
      float condval_20;
      if ((((i_34 & 3) >> 1) == 1)) {
        condval_20 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_20 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__36 = make_float4(condval_20, condval_20, condval_20, condval_20);
      float4 __43;
        float4 v__37 = *(float4*)(G_local_cast_8 + 0);
        float4 v__38 = *(float4*)(G_local_cast_9 + 0);
        __43.x = (v__37.x-v__38.x);
        __43.y = (v__37.y-v__38.y);
        __43.z = (v__37.z-v__38.z);
        __43.w = (v__37.w-v__38.w);
      __42.x = (v__36.x*__43.x);
      __42.y = (v__36.y*__43.y);
      __42.z = (v__36.z*__43.z);
      __42.w = (v__36.w*__43.w);
    __41.x = exp2f(__42.x);
    __41.y = exp2f(__42.y);
    __41.z = exp2f(__42.z);
    __41.w = exp2f(__42.w);
    ((half2*)(&__40))[0] = __float22half2_rn(((float2*)(&__41))[0]);
    ((half2*)(&__40))[1] = __float22half2_rn(((float2*)(&__41))[1]);
    *(uint2*)(kept + (i_34 * 4)) = __40;
  }
  __syncthreads();
  #pragma unroll
  for (int i_35 = 0; i_35 < 4; ++i_35) {
    uint4 __44;
      uint4 v__39 = *(uint4*)(q_unit + (i_35 * 8));
      uint4 v__40 = *(uint4*)(kept + (i_35 * 8));
      *(uint1*)(&(__44.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__39.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__40.x)))));
      *(uint1*)(&(__44.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__39.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__40.y)))));
      *(uint1*)(&(__44.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__39.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__40.z)))));
      *(uint1*)(&(__44.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__39.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__40.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_35 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __44;
  }
  #pragma unroll
  for (int i_36 = 0; i_36 < 4; ++i_36) {
    uint4 __45;
      uint4 v__41 = *(uint4*)(k_unit + (i_36 * 8));
      uint4 v__42 = *(uint4*)(kept + (i_36 * 8));
      *(uint1*)(&(__45.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__41.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__42.x)))));
      *(uint1*)(&(__45.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__41.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__42.y)))));
      *(uint1*)(&(__45.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__41.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__42.z)))));
      *(uint1*)(&(__45.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__41.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__42.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_36 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __45;
  }
  {
    tl::GmmaDescriptor desc_a_8;
    tl::GmmaDescriptor desc_b_8;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_8, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_8, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_8 = 0; ki_8 < 8; ++ki_8) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_8 + ((((ki_8 >> 2) * 8192) + ((ki_8 & 3) * 32)) >> 4)), uint64_t(desc_b_8 + (((((ki_8 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_8 & 3) * 32)) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_8) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
  }
  {
    tl::GmmaDescriptor desc_a_9;
    tl::GmmaDescriptor desc_b_9;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_9, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_9, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_9 = 0; ki_9 < 8; ++ki_9) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_9 + ((((ki_9 >> 2) * 8192) + ((ki_9 & 3) * 32)) >> 4)), uint64_t(desc_b_9 + (((((ki_9 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_9 & 3) * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_9) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_37 = 0; i_37 < 16; ++i_37) {
    float condval_21;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_37 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_37 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_37 & 1))) >> 4) == 1)) {
      condval_21 = of_q[i_37];
    } else {
      condval_21 = pairs_q[i_37];
    }
    pairs_q[i_37] = condval_21;
    float condval_22;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_37 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_37 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_37 & 1))) >> 4) == 1)) {
      condval_22 = of_k[i_37];
    } else {
      condval_22 = pairs_k[i_37];
    }
    pairs_k[i_37] = condval_22;
  }
  #pragma unroll
  for (int i_38 = 0; i_38 < 8; ++i_38) {
    float G_local_cast_10[4];
    float G_local_cast_11[4];
    *(float4*)(G_local_cast_10 + 0) = *(float4*)(((float*)G) + ((((i_38 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 3968));
    *(float4*)(G_local_cast_11 + 0) = *(float4*)(((float*)G) + (((((i_38 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_38 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    uint2 __46;
    float4 __47;
    float4 condval_23;
    if ((i_38 < 4)) {
      float4 __48;
        float4 v__43 = *(float4*)(G_local_cast_10 + 0);
        float4 v__44 = *(float4*)(G_local_cast_11 + 0);
        __48.x = (v__43.x-v__44.x);
        __48.y = (v__43.y-v__44.y);
        __48.z = (v__43.z-v__44.z);
        __48.w = (v__43.w-v__44.w);
      condval_23 = __48;
    } else {
      condval_23 = *(float4*)(G_local_cast_11 + 0);
    }
    __47.x = exp2f(condval_23.x);
    __47.y = exp2f(condval_23.y);
    __47.z = exp2f(condval_23.z);
    __47.w = exp2f(condval_23.w);
    ((half2*)(&__46))[0] = __float22half2_rn(((float2*)(&__47))[0]);
    ((half2*)(&__46))[1] = __float22half2_rn(((float2*)(&__47))[1]);
    *(uint2*)(kept + (i_38 * 4)) = __46;
  }
  __syncthreads();
  #pragma unroll
  for (int i_39 = 0; i_39 < 4; ++i_39) {
    uint4 __49;
      uint4 v__45 = *(uint4*)(q_unit + (i_39 * 8));
      uint4 v__46 = *(uint4*)(kept + (i_39 * 8));
      *(uint1*)(&(__49.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__45.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__46.x)))));
      *(uint1*)(&(__49.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__45.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__46.y)))));
      *(uint1*)(&(__49.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__45.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__46.z)))));
      *(uint1*)(&(__49.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__45.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__46.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_39 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __49;
  }
  #pragma unroll
  for (int i_40 = 0; i_40 < 4; ++i_40) {
    uint4 __50;
      uint4 v__47 = *(uint4*)(k_unit + (i_40 * 8));
      uint4 v__48 = *(uint4*)(kept + (i_40 * 8));
      *(uint1*)(&(__50.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.x)))));
      *(uint1*)(&(__50.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.y)))));
      *(uint1*)(&(__50.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.z)))));
      *(uint1*)(&(__50.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_40 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __50;
  }
  {
    tl::GmmaDescriptor desc_a_10;
    tl::GmmaDescriptor desc_b_10;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_10, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_10, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_10 = 0; ki_10 < 8; ++ki_10) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_10 + ((((ki_10 >> 2) * 8192) + ((ki_10 & 3) * 32)) >> 4)), uint64_t(desc_b_10 + (((((ki_10 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_10 & 3) * 32)) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_10) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
  }
  {
    tl::GmmaDescriptor desc_a_11;
    tl::GmmaDescriptor desc_b_11;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_11, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_11, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_11 = 0; ki_11 < 8; ++ki_11) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_11 + ((((ki_11 >> 2) * 8192) + ((ki_11 & 3) * 32)) >> 4)), uint64_t(desc_b_11 + (((((ki_11 >> 2) * 8192) + ((((int)threadIdx.x) >> 7) * 4096)) + ((ki_11 & 3) * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_11) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_41 = 0; i_41 < 16; ++i_41) {
    float condval_24;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_41 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_41 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_41 & 1))) >> 5) == 1)) {
      condval_24 = of_q[i_41];
    } else {
      condval_24 = pairs_q[i_41];
    }
    pairs_q[i_41] = condval_24;
    float condval_25;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_41 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_41 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_41 & 1))) >> 5) == 1)) {
      condval_25 = of_k[i_41];
    } else {
      condval_25 = pairs_k[i_41];
    }
    pairs_k[i_41] = condval_25;
  }
  __syncthreads();
  #pragma unroll
  for (int i_42 = 0; i_42 < 16; ++i_42) {
    float condval_26;
    if (((((((((int)threadIdx.x) >> 7) * 32) + ((i_42 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_42 & 1)) < (((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_42 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)))) {
      condval_26 = pairs_q[i_42];
    } else {
      float condval_27;
      if (((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_42 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) == (((((((int)threadIdx.x) >> 7) * 32) + ((i_42 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_42 & 1)))) {
        condval_27 = ((float*)owns)[(((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_42 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))];
      } else {
        condval_27 = 0x0p+0f/*0.000000e+00*/;
      }
      condval_26 = condval_27;
    }
    ((half_t*)M)[((((((((((((int)threadIdx.x) & 127) >> 5) * 1024) + (((i_42 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + ((((((int)threadIdx.x) >> 7) + ((((int)threadIdx.x) & 31) >> 4)) & 1) * 32)) + ((((i_42 >> 3) + ((((int)threadIdx.x) & 15) >> 3)) & 1) * 16)) + (((((i_42 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_42 & 1))] = ((half_t)condval_26);
  }
  #pragma unroll
  for (int i_43 = 0; i_43 < 16; ++i_43) {
    float condval_28;
    if (((((((((int)threadIdx.x) >> 7) * 32) + ((i_43 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_43 & 1)) < (((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_43 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)))) {
      condval_28 = (((float*)betas)[(((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_43 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] * pairs_k[i_43]);
    } else {
      condval_28 = 0x0p+0f/*0.000000e+00*/;
    }
    pairs_k[i_43] = condval_28;
  }
  __syncthreads();
  #pragma unroll
  for (int i_44 = 0; i_44 < 2; ++i_44) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)L)[(((((((((int)threadIdx.x) & 127) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + ((((((int)threadIdx.x) >> 7) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + i_44) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)pairs_k[(i_44 * 8)]), ((half_t)pairs_k[((i_44 * 8) + 1)])), __pack_half2(((half_t)pairs_k[((i_44 * 8) + 2)]), ((half_t)pairs_k[((i_44 * 8) + 3)])), __pack_half2(((half_t)pairs_k[((i_44 * 8) + 4)]), ((half_t)pairs_k[((i_44 * 8) + 5)])), __pack_half2(((half_t)pairs_k[((i_44 * 8) + 6)]), ((half_t)pairs_k[((i_44 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_45 = 0; i_45 < 16; ++i_45) {
    if (((((int)threadIdx.x) & 127) >> 5) == (((((int)threadIdx.x) >> 7) * 2) + (i_45 >> 3))) {
      ((float*)diagonal)[((((((((((int)threadIdx.x) & 127) >> 5) * 272) + (((i_45 & 3) >> 1) * 136)) + (((((int)threadIdx.x) & 31) >> 2) * 17)) + (((i_45 & 7) >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_45 & 1))] = pairs_k[i_45];
    }
  }
  #pragma unroll
  for (int i_46 = 0; i_46 < 2; ++i_46) {
    half_t broadcast_var_4 = half_t(0x0p+0f/*0.000000e+00*/);
    *(uint4*)(((half_t*)X) + (((((i_46 * 2048) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = make_uint4(__pack_half2(broadcast_var_4, broadcast_var_4), __pack_half2(broadcast_var_4, broadcast_var_4), __pack_half2(broadcast_var_4, broadcast_var_4), __pack_half2(broadcast_var_4, broadcast_var_4));
    half_t broadcast_var_5 = half_t(0x0p+0f/*0.000000e+00*/);
    *(uint4*)(((half_t*)Xt) + (((((i_46 * 2048) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = make_uint4(__pack_half2(broadcast_var_5, broadcast_var_5), __pack_half2(broadcast_var_5, broadcast_var_5), __pack_half2(broadcast_var_5, broadcast_var_5), __pack_half2(broadcast_var_5, broadcast_var_5));
  }
  #pragma unroll
  for (int i_47 = 0; i_47 < 8; ++i_47) {
    float G_local_cast_12[4];
    float G_local_cast_13[4];
    *(float4*)(G_local_cast_12 + 0) = *(float4*)(((float*)G) + (((((i_47 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_47 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_13 + 0) = *(float4*)(((float*)G) + ((((i_47 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 3968));
    float broadcast_var_6 = 0x0p+0f/*0.000000e+00*/;
    uint2 __51;
    float4 __52;
    float4 __53;
      float4 v__49 = *(float4*)(G_local_cast_12 + 0);
      float4 condval_29;
      if ((i_47 < 4)) {
        condval_29 = make_float4(broadcast_var_6, broadcast_var_6, broadcast_var_6, broadcast_var_6);
      } else {
        condval_29 = *(float4*)(G_local_cast_13 + 0);
      }
      __53.x = (v__49.x+condval_29.x);
      __53.y = (v__49.y+condval_29.y);
      __53.z = (v__49.z+condval_29.z);
      __53.w = (v__49.w+condval_29.w);
    __52.x = exp2f(__53.x);
    __52.y = exp2f(__53.y);
    __52.z = exp2f(__53.z);
    __52.w = exp2f(__53.w);
    ((half2*)(&__51))[0] = __float22half2_rn(((float2*)(&__52))[0]);
    ((half2*)(&__51))[1] = __float22half2_rn(((float2*)(&__52))[1]);
    *(uint2*)(kept + (i_47 * 4)) = __51;
  }
  #pragma unroll
  for (int i_48 = 0; i_48 < 4; ++i_48) {
    uint4 __54;
      uint4 v__50 = *(uint4*)(k_unit + (i_48 * 8));
      uint4 v__51 = *(uint4*)(kept + (i_48 * 8));
      *(uint1*)(&(__54.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__50.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__51.x)))));
      *(uint1*)(&(__54.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__50.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__51.y)))));
      *(uint1*)(&(__54.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__50.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__51.z)))));
      *(uint1*)(&(__54.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__50.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__51.w)))));
    *(uint4*)(operators + (((((int64_t)((int)blockIdx.x)) * (int64_t)24576) + (((int64_t)i_48) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))) = __54;
  }
  #pragma unroll
  for (int i_49 = 0; i_49 < 4; ++i_49) {
    uint4 __55;
      uint4 v__52 = *(uint4*)(q_unit + (i_49 * 8));
      uint4 v__53 = *(uint4*)(kept + (i_49 * 8));
      *(uint1*)(&(__55.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__52.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__53.x)))));
      *(uint1*)(&(__55.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__52.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__53.y)))));
      *(uint1*)(&(__55.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__52.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__53.z)))));
      *(uint1*)(&(__55.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__52.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__53.w)))));
    *(uint4*)(operators + ((((((int64_t)((int)blockIdx.x)) * (int64_t)24576) + (((int64_t)i_49) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)8192)) = __55;
  }
  #pragma unroll
  for (int i_50 = 0; i_50 < 8; ++i_50) {
    float G_local_cast_14[4];
    float G_local_cast_15[4];
    float G_local_cast_16[4];
    *(float4*)(G_local_cast_14 + 0) = *(float4*)(((float*)G) + ((((i_50 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 8064));
    *(float4*)(G_local_cast_15 + 0) = *(float4*)(((float*)G) + (((((i_50 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_50 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_16 + 0) = *(float4*)(((float*)G) + ((((i_50 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 3968));
    float broadcast_var_7 = 0x0p+0f/*0.000000e+00*/;
    uint2 __56;
    float4 __57;
    float4 __58;
      float4 __59;
        float4 v__54 = *(float4*)(G_local_cast_14 + 0);
        float4 v__55 = *(float4*)(G_local_cast_15 + 0);
        __59.x = (v__54.x-v__55.x);
        __59.y = (v__54.y-v__55.y);
        __59.z = (v__54.z-v__55.z);
        __59.w = (v__54.w-v__55.w);
      float4 condval_30;
      if ((i_50 < 4)) {
        condval_30 = *(float4*)(G_local_cast_16 + 0);
      } else {
        condval_30 = make_float4(broadcast_var_7, broadcast_var_7, broadcast_var_7, broadcast_var_7);
      }
      __58.x = (__59.x+condval_30.x);
      __58.y = (__59.y+condval_30.y);
      __58.z = (__59.z+condval_30.z);
      __58.w = (__59.w+condval_30.w);
    __57.x = exp2f(__58.x);
    __57.y = exp2f(__58.y);
    __57.z = exp2f(__58.z);
    __57.w = exp2f(__58.w);
    ((half2*)(&__56))[0] = __float22half2_rn(((float2*)(&__57))[0]);
    ((half2*)(&__56))[1] = __float22half2_rn(((float2*)(&__57))[1]);
    *(uint2*)(kept + (i_50 * 4)) = __56;
  }
  #pragma unroll
  for (int i_51 = 0; i_51 < 4; ++i_51) {
    uint4 __60;
      uint4 v__56 = *(uint4*)(k_unit + (i_51 * 8));
      uint4 v__57 = *(uint4*)(kept + (i_51 * 8));
      *(uint1*)(&(__60.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.x)))));
      *(uint1*)(&(__60.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.y)))));
      *(uint1*)(&(__60.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.z)))));
      *(uint1*)(&(__60.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.w)))));
    *(uint4*)(((half_t*)remaining) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_51 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __60;
  }
  if (((int)threadIdx.x) < 128) {
    decays[((((int64_t)((int)blockIdx.x)) * (int64_t)128) + ((int64_t)((int)threadIdx.x)))] = exp2f((((float*)G)[((((((((int)threadIdx.x) & 7) >> 2) * 64) + ((((int)threadIdx.x) >> 3) * 4)) + (((int)threadIdx.x) & 3)) + 3968)] + ((float*)G)[((((((((int)threadIdx.x) & 7) >> 2) * 64) + ((((int)threadIdx.x) >> 3) * 4)) + (((int)threadIdx.x) & 3)) + 8064)]));
  }
  __syncthreads();
  if (((int)threadIdx.x) < 64) {
    #pragma unroll
    for (int i_52 = 0; i_52 < 16; ++i_52) {
      float condval_31;
      if (((((int)threadIdx.x) & 15) == i_52)) {
        condval_31 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_31 = 0x0p+0f/*0.000000e+00*/;
      }
      solution[i_52] = condval_31;
      #pragma unroll
      for (int j = 0; j < 16; ++j) {
        if (j < i_52) {
          solution[i_52] = (solution[i_52] - (((float*)diagonal)[((((((int)threadIdx.x) >> 4) * 272) + (i_52 * 17)) + j)] * solution[j]));
        }
      }
      ((half_t*)X)[(((((((((int)threadIdx.x) >> 4) * 1024) + (i_52 * 64)) + ((((((int)threadIdx.x) >> 5) + ((i_52 & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((i_52 & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (i_52 & 1)) & 1) * 8)) + (((int)threadIdx.x) & 7))] = ((half_t)solution[i_52]);
      ((half_t*)Xt)[(((((((int)threadIdx.x) * 64) + ((((((int)threadIdx.x) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + ((((i_52 >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + (i_52 & 7))] = ((half_t)solution[i_52]);
    }
  }
  {
    tl::GmmaDescriptor desc_a_12;
    tl::GmmaDescriptor desc_b_12;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_12, (&(((half_t*)L)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_12, (&(((half_t*)Xt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_12 = 0; ki_12 < 4; ++ki_12) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_12 + ((ki_12 * 32) >> 4)), uint64_t(desc_b_12 + ((((((int)threadIdx.x) >> 7) * 4096) + (ki_12 * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_12) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  __syncthreads();
  #pragma unroll
  for (int i_53 = 0; i_53 < 16; ++i_53) {
    float condval_32;
    if (((((((int)threadIdx.x) & 127) >> 5) == ((((((int)threadIdx.x) >> 7) * 2) + (i_53 >> 3)) + 1)) && ((i_53 >> 3) == 0))) {
      condval_32 = of_k[i_53];
    } else {
      condval_32 = 0x0p+0f/*0.000000e+00*/;
    }
    ((half_t*)Pt)[(((((((((((int)threadIdx.x) >> 7) * 2048) + ((i_53 >> 2) * 512)) + ((((int)threadIdx.x) & 3) * 128)) + ((i_53 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_53 & 3) >> 1) + (i_53 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)condval_32);
  }
  {
    tl::GmmaDescriptor desc_a_13;
    tl::GmmaDescriptor desc_b_13;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_13, (&(((half_t*)X)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_13, (&(((half_t*)Pt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_13 = 0; ki_13 < 4; ++ki_13) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_13 + ((ki_13 * 32) >> 4)), uint64_t(desc_b_13 + ((((((int)threadIdx.x) >> 7) * 4096) + (ki_13 * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_13) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  __syncthreads();
  #pragma unroll
  for (int i_54 = 0; i_54 < 16; ++i_54) {
    if ((((((int)threadIdx.x) & 127) >> 5) == ((((((int)threadIdx.x) >> 7) * 2) + (i_54 >> 3)) + 1)) && ((i_54 >> 3) == 0)) {
      ((half_t*)X)[((((((((((((int)threadIdx.x) & 127) >> 5) * 1024) + (((i_54 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + ((((((int)threadIdx.x) >> 7) + ((((int)threadIdx.x) & 31) >> 4)) & 1) * 32)) + (((((int)threadIdx.x) & 15) >> 3) * 16)) + (((((i_54 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_54 & 1))] = ((half_t)(of_k[i_54] * -0x1p+0f/*-1.000000e+00*/));
      ((half_t*)Xt)[(((((((((((int)threadIdx.x) >> 7) * 2048) + ((i_54 >> 2) * 512)) + ((((int)threadIdx.x) & 3) * 128)) + ((i_54 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_54 & 3) >> 1) + (i_54 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)(of_k[i_54] * -0x1p+0f/*-1.000000e+00*/));
    }
  }
  {
    tl::GmmaDescriptor desc_a_14;
    tl::GmmaDescriptor desc_b_14;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_14, (&(((half_t*)L)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_14, (&(((half_t*)Xt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_14 = 0; ki_14 < 4; ++ki_14) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_14 + ((ki_14 * 32) >> 4)), uint64_t(desc_b_14 + ((((((int)threadIdx.x) >> 7) * 4096) + (ki_14 * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_14) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  __syncthreads();
  #pragma unroll
  for (int i_55 = 0; i_55 < 16; ++i_55) {
    float condval_33;
    if (((((((int)threadIdx.x) & 127) >> 6) == ((((int)threadIdx.x) >> 7) + 1)) && ((((int)threadIdx.x) >> 7) == 0))) {
      condval_33 = of_k[i_55];
    } else {
      condval_33 = 0x0p+0f/*0.000000e+00*/;
    }
    ((half_t*)Pt)[(((((((((((int)threadIdx.x) >> 7) * 2048) + ((i_55 >> 2) * 512)) + ((((int)threadIdx.x) & 3) * 128)) + ((i_55 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_55 & 3) >> 1) + (i_55 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)condval_33);
  }
  {
    tl::GmmaDescriptor desc_a_15;
    tl::GmmaDescriptor desc_b_15;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_15, (&(((half_t*)X)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_15, (&(((half_t*)Pt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_15 = 0; ki_15 < 4; ++ki_15) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_15 + ((ki_15 * 32) >> 4)), uint64_t(desc_b_15 + ((((((int)threadIdx.x) >> 7) * 4096) + (ki_15 * 32)) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_15) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 16);
  }
  __syncthreads();
  if ((((((int)threadIdx.x) & 127) >> 6) == ((((int)threadIdx.x) >> 7) + 1)) && ((((int)threadIdx.x) >> 7) == 0)) {
    #pragma unroll
    for (int i_56 = 0; i_56 < 16; ++i_56) {
      ((half_t*)X)[((((((((((((int)threadIdx.x) & 127) >> 5) * 1024) + (((i_56 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + (((((int)threadIdx.x) & 31) >> 4) * 32)) + ((((i_56 >> 3) + ((((int)threadIdx.x) & 15) >> 3)) & 1) * 16)) + (((((i_56 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_56 & 1))] = ((half_t)(of_k[i_56] * -0x1p+0f/*-1.000000e+00*/));
      ((half_t*)Xt)[((((((((i_56 >> 2) * 512) + ((((int)threadIdx.x) & 3) * 128)) + ((i_56 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_56 & 3) >> 1) + (i_56 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)(of_k[i_56] * -0x1p+0f/*-1.000000e+00*/));
    }
  }
  {
    tl::GmmaDescriptor desc_a_16;
    tl::GmmaDescriptor desc_b_16;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_16, (&(((half_t*)M)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_16, (&(((half_t*)Xt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_16 = 0; ki_16 < 4; ++ki_16) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 32, 16, false, false, 1, 1>(uint64_t(desc_a_16 + ((ki_16 * 32) >> 4)), uint64_t(desc_b_16 + ((((((int)threadIdx.x) >> 7) * 4096) + (ki_16 * 32)) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_16) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 16);
  }
  {
    tl::GmmaDescriptor desc_a_17;
    tl::GmmaDescriptor desc_b_17;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_17, (&(((half_t*)Xt)[0])));
    tl::initialize_wgmma_descriptor<1, 512, 64>(desc_b_17, (&(((half_t*)remaining)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(Kr + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_17 = 0; ki_17 < 4; ++ki_17) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a_17 + ((ki_17 * 32) >> 4)), uint64_t(desc_b_17 + ((((((int)threadIdx.x) >> 7) * 8192) + (ki_17 * 2048)) >> 4)), ((uint32_t*)(Kr + 0)), ((0 < ki_17) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(Kr + 0), 32);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_57 = 0; i_57 < 8; ++i_57) {
    float2 __61;
      float2 v__58 = *(float2*)(of_q + (i_57 * 2));
      float2 v__59 = *(float2*)(((float*)betas) + ((((((int)threadIdx.x) >> 7) * 32) + ((i_57 >> 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)));
      __61.x = (v__58.x*v__59.x);
      __61.y = (v__58.y*v__59.y);
    *(float2*)(of_q + (i_57 * 2)) = __61;
  }
  #pragma unroll
  for (int i_58 = 0; i_58 < 16; ++i_58) {
    float2 __62;
      float2 v__60 = *(float2*)(Kr + (i_58 * 2));
      float2 v__61 = make_float2(((float*)betas)[(((((((int)threadIdx.x) & 127) >> 5) * 16) + ((i_58 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))], ((float*)betas)[(((((((int)threadIdx.x) & 127) >> 5) * 16) + ((i_58 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))]);
      __62.x = (v__60.x*v__61.x);
      __62.y = (v__60.y*v__61.y);
    *(float2*)(Kr + (i_58 * 2)) = __62;
  }
  __syncthreads();
  #pragma unroll
  for (int i_59 = 0; i_59 < 2; ++i_59) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)B)[(((((((((int)threadIdx.x) & 127) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + ((((int)threadIdx.x) >> 7) * 32)) + (i_59 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), __pack_half2(((half_t)of_q[(i_59 * 8)]), ((half_t)of_q[((i_59 * 8) + 1)])), __pack_half2(((half_t)of_q[((i_59 * 8) + 2)]), ((half_t)of_q[((i_59 * 8) + 3)])), __pack_half2(((half_t)of_q[((i_59 * 8) + 4)]), ((half_t)of_q[((i_59 * 8) + 5)])), __pack_half2(((half_t)of_q[((i_59 * 8) + 6)]), ((half_t)of_q[((i_59 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_60 = 0; i_60 < 4; ++i_60) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)rows_k)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_60 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_60 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Kr[(i_60 * 8)]), ((half_t)Kr[((i_60 * 8) + 1)])), __pack_half2(((half_t)Kr[((i_60 * 8) + 2)]), ((half_t)Kr[((i_60 * 8) + 3)])), __pack_half2(((half_t)Kr[((i_60 * 8) + 4)]), ((half_t)Kr[((i_60 * 8) + 5)])), __pack_half2(((half_t)Kr[((i_60 * 8) + 6)]), ((half_t)Kr[((i_60 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_61 = 0; i_61 < 2; ++i_61) {
    *(uint4*)(triangles + (((((int64_t)((int)blockIdx.x)) * (int64_t)4096) + (((int64_t)i_61) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))) = *(uint4*)(((half_t*)B) + ((i_61 * 2048) + (((int)threadIdx.x) * 8)));
  }
  #pragma unroll
  for (int i_62 = 0; i_62 < 4; ++i_62) {
    *(uint4*)(operators + ((((((int64_t)((int)blockIdx.x)) * (int64_t)24576) + (((int64_t)i_62) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)) = *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_62 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)));
  }
}

cudaError_t kda_prepare_k128_bf16(const KdaPrepare& arguments, cudaStream_t stream) {
  static Prepared prepared{0};
  return launch(kda_prepare_k128_bf16_kernel, prepared, dim3(static_cast<unsigned>(arguments.places * arguments.HV)), dim3(256, 1, 1),
                104448, stream,
                static_cast<const bfloat16_t*>(arguments.A_log),
                static_cast<const float*>(arguments.A_log_f32),
                static_cast<const bfloat16_t*>(arguments.beta),
                static_cast<const float*>(arguments.beta_f32),
                static_cast<float*>(arguments.decays),
                static_cast<const bfloat16_t*>(arguments.dt_bias),
                static_cast<const float*>(arguments.dt_bias_f32),
                static_cast<const bfloat16_t*>(arguments.g),
                static_cast<const float*>(arguments.g_f32),
                static_cast<const bfloat16_t*>(arguments.k),
                static_cast<half_t*>(arguments.operators),
                static_cast<const bfloat16_t*>(arguments.q),
                static_cast<half_t*>(arguments.triangles),
                arguments.A_log_head,
                arguments.A_log_is_f32,
                arguments.HV,
                arguments.beta_batch,
                arguments.beta_factor,
                arguments.beta_head,
                arguments.beta_is_f32,
                arguments.beta_sigmoid,
                arguments.beta_token,
                arguments.dt_bias_channel,
                arguments.dt_bias_head,
                arguments.dt_bias_is_f32,
                arguments.g_batch,
                arguments.g_channel,
                arguments.g_head,
                arguments.g_is_f32,
                arguments.g_token,
                arguments.gate,
                arguments.group,
                arguments.has_A_log,
                arguments.has_dt_bias,
                arguments.k_batch,
                arguments.k_head,
                arguments.k_token,
                arguments.l2norm,
                arguments.lower_bound,
                arguments.places,
                arguments.q_batch,
                arguments.q_head,
                arguments.q_token,
                arguments.tokens);
}

}  // namespace fla::tilelang::generated
