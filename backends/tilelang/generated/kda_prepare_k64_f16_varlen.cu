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
#include "backends/tilelang/magnitudes.cuh"

namespace fla::tilelang::generated {

static __global__ void __launch_bounds__(128, 3) kda_prepare_k64_f16_varlen_kernel(const half_t* __restrict__ A_log, const float* __restrict__ A_log_f32, const half_t* __restrict__ beta, const float* __restrict__ beta_f32, const int* __restrict__ cu_seqlens, const half_t* __restrict__ dt_bias, const float* __restrict__ dt_bias_f32, const half_t* __restrict__ g, const float* __restrict__ g_f32, const half_t* __restrict__ k, half_t* __restrict__ operators, const half_t* __restrict__ q, half_t* __restrict__ triangles, float* __restrict__ vectors, int64_t A_log_head, int A_log_is_f32, int HV, int N, int64_t beta_batch, float beta_factor, int64_t beta_head, int beta_is_f32, int beta_sigmoid, int64_t beta_token, int64_t cu_seqlens_stride, int cu_seqlens_wide, int64_t dt_bias_channel, int64_t dt_bias_head, int dt_bias_is_f32, int64_t g_batch, int64_t g_channel, int64_t g_head, int g_is_f32, int g_token, int gate, int group, int has_A_log, int has_dt_bias, int64_t k_batch, int64_t k_head, int64_t k_token, int l2norm, float lower_bound, int places, int64_t q_batch, int64_t q_head, int64_t q_token, int search_steps, int tokens) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* B = ((void*)((char*)buf_dyn_shmem + 0));
  void* G = ((void*)((char*)buf_dyn_shmem + 0));
  void* remaining = ((void*)((char*)buf_dyn_shmem + 0));
  void* Pt = ((void*)((char*)buf_dyn_shmem + 8192));
  void* betas = ((void*)((char*)buf_dyn_shmem + 16384));
  void* owns = ((void*)((char*)buf_dyn_shmem + 16640));
  void* M = ((void*)((char*)buf_dyn_shmem + 17408));
  void* rows_q = ((void*)((char*)buf_dyn_shmem + 17408));
  void* rows_k = ((void*)((char*)buf_dyn_shmem + 25600));
  void* L = ((void*)((char*)buf_dyn_shmem + 33792));
  void* diagonal = ((void*)((char*)buf_dyn_shmem + 41984));
  void* X = ((void*)((char*)buf_dyn_shmem + 47104));
  void* Xt = ((void*)((char*)buf_dyn_shmem + 55296));
  int head = 0;
  int place = 0;
  int low = 0;
  int high = 0;
  int batch = 0;
  int first = 0;
  int count = 0;
  half_t q_rows[32];
  half_t k_rows[32];
  int64_t g_first = (int64_t)0;
  float rate = 0x0p+0f/*0.000000e+00*/;
  float bias = 0x0p+0f/*0.000000e+00*/;
  float decay = 0x0p+0f/*0.000000e+00*/;
  float raw[32];
  int bad = 0;
  int until = 0;
  float sums[32];
  float q_factor[4];
  float k_factor[4];
  float own[4];
  int mark = 0;
  __shared__ __align__(16) int spoilt[64];
  int exponent[4];
  float square[4];
  half_t q_unit[32];
  half_t k_unit[32];
  float pairs_q[32];
  float pairs_k[32];
  half_t kept[32];
  float of_q[32];
  float of_k[32];
  float solution[16];
  float Kr[32];
  head = (((int)blockIdx.x) % HV);
  place = (((int)blockIdx.x) / HV);
  low = 0;
  high = (N - 1);
  for (int __1 = 0; __1 < search_steps; ++__1) {
    int middle = (((low + high) + 1) >> 1);
    int condval;
    if ((cu_seqlens_wide != 0)) {
      int condval_1;
      if (((cu_seqlens[(((((int64_t)middle) * cu_seqlens_stride) * (int64_t)2) + (int64_t)1)] == 0) && (0 <= cu_seqlens[((((int64_t)middle) * cu_seqlens_stride) * (int64_t)2)]))) {
        condval_1 = cu_seqlens[((((int64_t)middle) * cu_seqlens_stride) * (int64_t)2)];
      } else {
        int condval_2;
        if ((cu_seqlens[(((((int64_t)middle) * cu_seqlens_stride) * (int64_t)2) + (int64_t)1)] < 0)) {
          condval_2 = -1;
        } else {
          condval_2 = 2147483647;
        }
        condval_1 = condval_2;
      }
      condval = condval_1;
    } else {
      condval = cu_seqlens[(((int64_t)middle) * cu_seqlens_stride)];
    }
    int begin = max(min(condval, tokens), 0);
    if (((begin >> 6) + middle) <= place) {
      low = min(middle, (N - 1));
    } else {
      high = max((middle - 1), 0);
    }
  }
  batch = 0;
  int condval_3;
  if ((cu_seqlens_wide != 0)) {
    int condval_4;
    if (((cu_seqlens[(((((int64_t)low) * cu_seqlens_stride) * (int64_t)2) + (int64_t)1)] == 0) && (0 <= cu_seqlens[((((int64_t)low) * cu_seqlens_stride) * (int64_t)2)]))) {
      condval_4 = cu_seqlens[((((int64_t)low) * cu_seqlens_stride) * (int64_t)2)];
    } else {
      int condval_5;
      if ((cu_seqlens[(((((int64_t)low) * cu_seqlens_stride) * (int64_t)2) + (int64_t)1)] < 0)) {
        condval_5 = -1;
      } else {
        condval_5 = 2147483647;
      }
      condval_4 = condval_5;
    }
    condval_3 = condval_4;
  } else {
    condval_3 = cu_seqlens[(((int64_t)low) * cu_seqlens_stride)];
  }
  first = max(min(condval_3, tokens), 0);
  int condval_6;
  if ((cu_seqlens_wide != 0)) {
    int condval_7;
    if (((cu_seqlens[((((((int64_t)low) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride) + (int64_t)1)] == 0) && (0 <= cu_seqlens[(((((int64_t)low) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride)]))) {
      condval_7 = cu_seqlens[(((((int64_t)low) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride)];
    } else {
      int condval_8;
      if ((cu_seqlens[((((((int64_t)low) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride) + (int64_t)1)] < 0)) {
        condval_8 = -1;
      } else {
        condval_8 = 2147483647;
      }
      condval_7 = condval_8;
    }
    condval_6 = condval_7;
  } else {
    condval_6 = cu_seqlens[((((int64_t)low) + (int64_t)1) * cu_seqlens_stride)];
  }
  count = (max(min(condval_6, tokens), 0) - first);
  high = (((place * 64) - ((first >> 6) * 64)) - (low * 64));
  first = (first + high);
  int condval_9;
  if ((0 <= high)) {
    condval_9 = (count - high);
  } else {
    condval_9 = 0;
  }
  count = condval_9;
  if (count <= 0) {
    return;
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    half_t broadcast_var = half_t(0x0p+0f/*0.000000e+00*/);
    uint4 condval_10;
    if ((((i * 16) + (((int)threadIdx.x) >> 3)) < count)) {
      condval_10 = *(uint4*)(q + (((((((int64_t)batch) * q_batch) * (int64_t)8) + (((((int64_t)first) + ((int64_t)min(((i * 16) + (((int)threadIdx.x) >> 3)), (count - 1)))) * q_token) * (int64_t)8)) + ((((int64_t)(head / group)) * q_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
    } else {
      condval_10 = make_uint4(__pack_half2(broadcast_var, broadcast_var), __pack_half2(broadcast_var, broadcast_var), __pack_half2(broadcast_var, broadcast_var), __pack_half2(broadcast_var, broadcast_var));
    }
    *(uint4*)(q_rows + (i * 8)) = condval_10;
  }
  #pragma unroll
  for (int i_1 = 0; i_1 < 4; ++i_1) {
    half_t broadcast_var_1 = half_t(0x0p+0f/*0.000000e+00*/);
    uint4 condval_11;
    if ((((i_1 * 16) + (((int)threadIdx.x) >> 3)) < count)) {
      condval_11 = *(uint4*)(k + (((((((int64_t)batch) * k_batch) * (int64_t)8) + (((((int64_t)first) + ((int64_t)min(((i_1 * 16) + (((int)threadIdx.x) >> 3)), (count - 1)))) * k_token) * (int64_t)8)) + ((((int64_t)(head / group)) * k_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
    } else {
      condval_11 = make_uint4(__pack_half2(broadcast_var_1, broadcast_var_1), __pack_half2(broadcast_var_1, broadcast_var_1), __pack_half2(broadcast_var_1, broadcast_var_1), __pack_half2(broadcast_var_1, broadcast_var_1));
    }
    *(uint4*)(k_rows + (i_1 * 8)) = condval_11;
  }
  g_first = ((((((int64_t)batch) * g_batch) + (((int64_t)first) * ((int64_t)g_token))) + (((int64_t)head) * g_head)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)63) * g_channel));
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
      bias = dt_bias_f32[((((int64_t)head) * dt_bias_head) + ((((int64_t)((int)threadIdx.x)) & (int64_t)63) * dt_bias_channel))];
    } else {
      bias = ((float)dt_bias[((((int64_t)head) * dt_bias_head) + ((((int64_t)((int)threadIdx.x)) & (int64_t)63) * dt_bias_channel))]);
    }
  }
  if (g_is_f32 != 0) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 32; ++i_2) {
      raw[i_2] = g_f32[(g_first + ((int64_t)(min((((((int)threadIdx.x) >> 6) * 32) + i_2), (count - 1)) * g_token)))];
    }
  } else {
    #pragma unroll
    for (int i_3 = 0; i_3 < 32; ++i_3) {
      raw[i_3] = ((float)g[(g_first + ((int64_t)(min((((((int)threadIdx.x) >> 6) * 32) + i_3), (count - 1)) * g_token)))]);
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
      float condval_12;
      if ((0x0p+0f/*0.000000e+00*/ <= (rate * (raw[i_5] + bias)))) {
        condval_12 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_12 = expf((fabsf((rate * (raw[i_5] + bias))) * -0x1p+0f/*-1.000000e+00*/));
      }
      raw[i_5] = (lower_bound * (condval_12 / (0x1p+0f/*1.000000e+00*/ + expf((fabsf((rate * (raw[i_5] + bias))) * -0x1p+0f/*-1.000000e+00*/)))));
    }
  }
  #pragma unroll
  for (int i_6 = 0; i_6 < 32; ++i_6) {
    float condval_13;
    if (((((((int)threadIdx.x) >> 6) * 32) + i_6) < count)) {
      condval_13 = fla::tilelang::larger_of((0x1.71547652b82fep+0f/*1.442695e+00*/ * raw[i_6]), -0x1.4p+7f/*-1.600000e+02*/);
    } else {
      condval_13 = 0x0p+0f/*0.000000e+00*/;
    }
    decay = (decay + condval_13);
    ((float*)G)[((((((((int)threadIdx.x) >> 6) * 2048) + (i_6 * 64)) + (((((int)threadIdx.x) & 7) >> 2) * 32)) + (((((int)threadIdx.x) & 63) >> 3) * 4)) + (((int)threadIdx.x) & 3))] = decay;
  }
  float _reinterpret_tmp = decay;
  int condval_14;
  if (((2139095040 <= ((*(int *)(&(_reinterpret_tmp))) & 2147483647)) || (0x1.ep+3f/*1.500000e+01*/ < decay))) {
    condval_14 = 1;
  } else {
    condval_14 = 0;
  }
  bad = condval_14;
  until = 64;
  if (((int)threadIdx.x) < 64) {
    if (beta_is_f32 != 0) {
      rate = beta_f32[(((((int64_t)batch) * beta_batch) + ((((int64_t)first) + ((int64_t)min(((int)threadIdx.x), (count - 1)))) * beta_token)) + (((int64_t)head) * beta_head))];
    } else {
      rate = ((float)beta[(((((int64_t)batch) * beta_batch) + ((((int64_t)first) + ((int64_t)min(((int)threadIdx.x), (count - 1)))) * beta_token)) + (((int64_t)head) * beta_head))]);
    }
    if (beta_sigmoid != 0) {
      float condval_15;
      if ((0x0p+0f/*0.000000e+00*/ <= rate)) {
        condval_15 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_15 = expf((fabsf(rate) * -0x1p+0f/*-1.000000e+00*/));
      }
      rate = (beta_factor * (condval_15 / (0x1p+0f/*1.000000e+00*/ + expf((fabsf(rate) * -0x1p+0f/*-1.000000e+00*/)))));
    }
    float condval_16;
    if ((((int)threadIdx.x) < count)) {
      condval_16 = rate;
    } else {
      condval_16 = 0x0p+0f/*0.000000e+00*/;
    }
    rate = condval_16;
    ((float*)betas)[((int)threadIdx.x)] = rate;
    vectors[(((((int64_t)((int)blockIdx.x)) * (int64_t)256) + ((int64_t)((int)threadIdx.x))) + (int64_t)64)] = rate;
    vectors[(((((int64_t)((int)blockIdx.x)) * (int64_t)256) + ((int64_t)((int)threadIdx.x))) + (int64_t)128)] = rate;
    vectors[(((((int64_t)((int)blockIdx.x)) * (int64_t)256) + ((int64_t)((int)threadIdx.x))) + (int64_t)192)] = 0x1p+0f/*1.000000e+00*/;
    float _reinterpret_tmp_1 = rate;
    if (2139095040 <= ((*(int *)(&(_reinterpret_tmp_1))) & 2147483647)) {
      bad = 1;
    }
  }
  #pragma unroll
  for (int i_7 = 0; i_7 < 8; ++i_7) {
    float4 __2;
      float4 __3;
      uint2 v_ = *(uint2*)(q_rows + (i_7 * 4));
      ((float2*)(&__3))[0] = __half22float2(((half2*)(&v_))[0]);
      ((float2*)(&__3))[1] = __half22float2(((half2*)(&v_))[1]);
      float4 __4;
      ((float2*)(&__4))[0] = __half22float2(((half2*)(&v_))[0]);
      ((float2*)(&__4))[1] = __half22float2(((half2*)(&v_))[1]);
      __2.x = (__3.x*__4.x);
      __2.y = (__3.y*__4.y);
      __2.z = (__3.z*__4.z);
      __2.w = (__3.w*__4.w);
    *(float4*)(sums + (i_7 * 4)) = __2;
  }
  #pragma unroll
  for (int i_8 = 0; i_8 < 4; ++i_8) {
    q_factor[i_8] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv = 0; rv < 8; ++rv) {
      q_factor[i_8] = (q_factor[i_8] + sums[((i_8 * 8) + rv)]);
    }
    q_factor[i_8] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(q_factor[i_8]);
  }
  #pragma unroll
  for (int i_9 = 0; i_9 < 8; ++i_9) {
    float4 __5;
      float4 __6;
      uint2 v__1 = *(uint2*)(k_rows + (i_9 * 4));
      ((float2*)(&__6))[0] = __half22float2(((half2*)(&v__1))[0]);
      ((float2*)(&__6))[1] = __half22float2(((half2*)(&v__1))[1]);
      float4 __7;
      ((float2*)(&__7))[0] = __half22float2(((half2*)(&v__1))[0]);
      ((float2*)(&__7))[1] = __half22float2(((half2*)(&v__1))[1]);
      __5.x = (__6.x*__7.x);
      __5.y = (__6.y*__7.y);
      __5.z = (__6.z*__7.z);
      __5.w = (__6.w*__7.w);
    *(float4*)(sums + (i_9 * 4)) = __5;
  }
  #pragma unroll
  for (int i_10 = 0; i_10 < 4; ++i_10) {
    k_factor[i_10] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_1 = 0; rv_1 < 8; ++rv_1) {
      k_factor[i_10] = (k_factor[i_10] + sums[((i_10 * 8) + rv_1)]);
    }
    k_factor[i_10] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(k_factor[i_10]);
  }
  #pragma unroll
  for (int i_11 = 0; i_11 < 8; ++i_11) {
    float4 __8;
      float4 __9;
      uint2 v__2 = *(uint2*)(q_rows + (i_11 * 4));
      ((float2*)(&__9))[0] = __half22float2(((half2*)(&v__2))[0]);
      ((float2*)(&__9))[1] = __half22float2(((half2*)(&v__2))[1]);
      float4 __10;
      uint2 v__3 = *(uint2*)(k_rows + (i_11 * 4));
      ((float2*)(&__10))[0] = __half22float2(((half2*)(&v__3))[0]);
      ((float2*)(&__10))[1] = __half22float2(((half2*)(&v__3))[1]);
      __8.x = (__9.x*__10.x);
      __8.y = (__9.y*__10.y);
      __8.z = (__9.z*__10.z);
      __8.w = (__9.w*__10.w);
    *(float4*)(sums + (i_11 * 4)) = __8;
  }
  #pragma unroll
  for (int i_12 = 0; i_12 < 4; ++i_12) {
    own[i_12] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_2 = 0; rv_2 < 8; ++rv_2) {
      own[i_12] = (own[i_12] + sums[((i_12 * 8) + rv_2)]);
    }
    own[i_12] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(own[i_12]);
  }
  #pragma unroll
  for (int i_13 = 0; i_13 < 4; ++i_13) {
    float v__4 = q_factor[i_13];
    int condval_17;
    if ((l2norm != 0)) {
      condval_17 = 830472192;
    } else {
      condval_17 = 964689920;
    }
    int condval_18;
    if ((l2norm != 0)) {
      condval_18 = 2122317824;
    } else {
      condval_18 = 1149239296;
    }
    float v__5 = k_factor[i_13];
    int condval_19;
    if ((l2norm != 0)) {
      condval_19 = 830472192;
    } else {
      condval_19 = 964689920;
    }
    int condval_20;
    if ((l2norm != 0)) {
      condval_20 = 2122317824;
    } else {
      condval_20 = 1149239296;
    }
    float v__6 = k_factor[i_13];
    if ((((i_13 * 16) + (((int)threadIdx.x) >> 3)) < count) && (((((*(int *)(&(v__4))) < condval_17) || (condval_18 <= (*(int *)(&(v__4))))) || ((*(int *)(&(v__5))) < condval_19)) || (condval_20 <= (*(int *)(&(v__6)))))) {
      bad = 1;
    }
    float condval_21;
    if ((l2norm != 0)) {
      condval_21 = rsqrtf((q_factor[i_13] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
    } else {
      condval_21 = 0x1p+0f/*1.000000e+00*/;
    }
    q_factor[i_13] = condval_21;
    float condval_22;
    if ((l2norm != 0)) {
      condval_22 = rsqrtf((k_factor[i_13] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
    } else {
      condval_22 = 0x1p+0f/*1.000000e+00*/;
    }
    k_factor[i_13] = condval_22;
    own[i_13] = ((own[i_13] * q_factor[i_13]) * k_factor[i_13]);
  }
  bad = __syncthreads_or(bad);
  if (bad != 0) {
    mark = 0;
  }
  if (bad != 0) {
    if ((((int)threadIdx.x) < 64) && (((int)threadIdx.x) < count)) {
      float v__7 = ((float*)betas)[((int)threadIdx.x)];
      if (2139095040 <= ((*(int *)(&(v__7))) & 2147483647)) {
        mark = 1;
      }
    }
  }
  __syncthreads();
  if (bad != 0) {
    if ((((int)threadIdx.x) < 64) && (((int)threadIdx.x) < count)) {
      for (int j = 0; j < 64; ++j) {
        int64_t k_at = (((((int64_t)batch) * k_batch) + ((((int64_t)first) + ((int64_t)((int)threadIdx.x))) * k_token)) + (((int64_t)(head / group)) * k_head));
        int64_t q_at = (((((int64_t)batch) * q_batch) + ((((int64_t)first) + ((int64_t)((int)threadIdx.x))) * q_token)) + (((int64_t)(head / group)) * q_head));
        float v__8 = ((float*)G)[((((((int)threadIdx.x) * 64) + (((j & 7) >> 2) * 32)) + ((j >> 3) * 4)) + (j & 3))];
        float v__9 = (float)k[((k_at * (int64_t)8) + ((int64_t)j))];
        if (((2139095040 <= ((*(int *)(&(v__8))) & 2147483647)) || (0x1.ep+3f/*1.500000e+01*/ < ((float*)G)[((((((int)threadIdx.x) * 64) + (((j & 7) >> 2) * 32)) + ((j >> 3) * 4)) + (j & 3))])) || (2139095040 <= ((*(int *)(&(v__9))) & 2147483647))) {
          mark = 1;
        }
        float v__10 = (float)q[((q_at * (int64_t)8) + ((int64_t)j))];
        if ((mark == 0) && (2139095040 <= ((*(int *)(&(v__10))) & 2147483647))) {
          mark = 2;
        }
      }
    }
  }
  if (bad != 0) {
    if (((int)threadIdx.x) < 64) {
      spoilt[((int)threadIdx.x)] = mark;
    }
  }
  if (bad != 0) {
    __syncthreads();
  }
  if (bad != 0) {
    for (int i_14 = 0; i_14 < 64; ++i_14) {
      if ((spoilt[i_14] == 1) && (i_14 < until)) {
        until = i_14;
      }
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_15 = 0; i_15 < 4; ++i_15) {
      half_t broadcast_var_2 = half_t(0x0p+0f/*0.000000e+00*/);
      uint4 condval_23;
      if (((until <= ((i_15 * 16) + (((int)threadIdx.x) >> 3))) || (spoilt[((i_15 * 16) + (((int)threadIdx.x) >> 3))] == 2))) {
        condval_23 = make_uint4(__pack_half2(broadcast_var_2, broadcast_var_2), __pack_half2(broadcast_var_2, broadcast_var_2), __pack_half2(broadcast_var_2, broadcast_var_2), __pack_half2(broadcast_var_2, broadcast_var_2));
      } else {
        condval_23 = *(uint4*)(q_rows + (i_15 * 8));
      }
      *(uint4*)(q_rows + (i_15 * 8)) = condval_23;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_16 = 0; i_16 < 4; ++i_16) {
      half_t broadcast_var_3 = half_t(0x0p+0f/*0.000000e+00*/);
      uint4 condval_24;
      if ((until <= ((i_16 * 16) + (((int)threadIdx.x) >> 3)))) {
        condval_24 = make_uint4(__pack_half2(broadcast_var_3, broadcast_var_3), __pack_half2(broadcast_var_3, broadcast_var_3), __pack_half2(broadcast_var_3, broadcast_var_3), __pack_half2(broadcast_var_3, broadcast_var_3));
      } else {
        condval_24 = *(uint4*)(k_rows + (i_16 * 8));
      }
      *(uint4*)(k_rows + (i_16 * 8)) = condval_24;
    }
  }
  if (bad != 0) {
    decay = 0x0p+0f/*0.000000e+00*/;
  }
  if (bad != 0) {
    for (int i_17 = 0; i_17 < 32; ++i_17) {
      __syncthreads();
      if ((((((int)threadIdx.x) >> 6) * 32) + i_17) < until) {
        decay = ((float*)G)[((((((((int)threadIdx.x) >> 6) * 2048) + (i_17 * 64)) + (((((int)threadIdx.x) & 7) >> 2) * 32)) + (((((int)threadIdx.x) & 63) >> 3) * 4)) + (((int)threadIdx.x) & 3))];
      }
      __syncthreads();
      ((float*)G)[((((((((int)threadIdx.x) >> 6) * 2048) + (i_17 * 64)) + (((((int)threadIdx.x) & 7) >> 2) * 32)) + (((((int)threadIdx.x) & 63) >> 3) * 4)) + (((int)threadIdx.x) & 3))] = decay;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_18 = 0; i_18 < 8; ++i_18) {
      float4 __11;
      float4 __12;
      uint2 v__11 = *(uint2*)(k_rows + (i_18 * 4));
      ((float2*)(&__12))[0] = __half22float2(((half2*)(&v__11))[0]);
      ((float2*)(&__12))[1] = __half22float2(((half2*)(&v__11))[1]);
      __11.x = fabsf(__12.x);
      __11.y = fabsf(__12.y);
      __11.z = fabsf(__12.z);
      __11.w = fabsf(__12.w);
      *(float4*)(sums + (i_18 * 4)) = __11;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_19 = 0; i_19 < 4; ++i_19) {
      k_factor[i_19] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int rv_3 = 0; rv_3 < 8; ++rv_3) {
        k_factor[i_19] = (k_factor[i_19] + sums[((i_19 * 8) + rv_3)]);
      }
      k_factor[i_19] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(k_factor[i_19]);
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_20 = 0; i_20 < 4; ++i_20) {
      float v__12 = k_factor[i_20];
      int condval_25;
      if (((*(int *)(&(v__12))) == 0)) {
        condval_25 = 0;
      } else {
        condval_25 = max((((*(int *)(&(v__12))) >> 23) - 130), -126);
      }
      exponent[i_20] = condval_25;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_21 = 0; i_21 < 8; ++i_21) {
      float4 __13;
        float4 __14;
        uint2 v__13 = *(uint2*)(k_rows + (i_21 * 4));
        ((float2*)(&__14))[0] = __half22float2(((half2*)(&v__13))[0]);
        ((float2*)(&__14))[1] = __half22float2(((half2*)(&v__13))[1]);
        int v__14 = (127 - exponent[(i_21 >> 1)]) << 23;
        float4 v__15 = make_float4((*(float *)(&(v__14))), (*(float *)(&(v__14))), (*(float *)(&(v__14))), (*(float *)(&(v__14))));
        __13.x = (__14.x*v__15.x);
        __13.y = (__14.y*v__15.y);
        __13.z = (__14.z*v__15.z);
        __13.w = (__14.w*v__15.w);
      float4 divided = __13;
      float4 __15;
        __15.x = (divided.x*divided.x);
        __15.y = (divided.y*divided.y);
        __15.z = (divided.z*divided.z);
        __15.w = (divided.w*divided.w);
      *(float4*)(sums + (i_21 * 4)) = __15;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_22 = 0; i_22 < 4; ++i_22) {
      square[i_22] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int rv_4 = 0; rv_4 < 8; ++rv_4) {
        square[i_22] = (square[i_22] + sums[((i_22 * 8) + rv_4)]);
      }
      square[i_22] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(square[i_22]);
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_23 = 0; i_23 < 4; ++i_23) {
      int v__16 = (127 - exponent[i_23]) << 23;
      float condval_26;
      if ((l2norm != 0)) {
        condval_26 = rsqrtf((square[i_23] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
      } else {
        condval_26 = 0x1p+0f/*1.000000e+00*/;
      }
      k_factor[i_23] = ((*(float *)(&(v__16))) * condval_26);
    }
  }
  if (bad != 0) {
    if ((((int)threadIdx.x) % 8) == 0) {
      #pragma unroll
      for (int i_24 = 0; i_24 < 4; ++i_24) {
        float condval_27;
        if ((l2norm != 0)) {
          int v__17 = (min(exponent[i_24], 0) + 127) << 23;
          int v__18 = (127 - min(max(exponent[i_24], 0), 60)) << 23;
          condval_27 = (((*(float *)(&(v__17))) * (square[i_24] * rsqrtf(max(square[i_24], 0x1.4484bfeebc2ap-100f/*1.000000e-30*/)))) * rsqrtf((((square[i_24] * (*(float *)(&(v__17)))) * (*(float *)(&(v__17)))) + ((0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/ * (*(float *)(&(v__18)))) * (*(float *)(&(v__18)))))));
        } else {
          int v__19 = (exponent[i_24] + 127) << 23;
          condval_27 = (*(float *)(&(v__19)));
        }
        float of_key = condval_27;
        float condval_28;
        if ((((i_24 * 16) + (((int)threadIdx.x) >> 3)) < until)) {
          condval_28 = ((float*)betas)[((i_24 * 16) + (((int)threadIdx.x) >> 3))];
        } else {
          condval_28 = 0x0p+0f/*0.000000e+00*/;
        }
        float weighted = (condval_28 * of_key);
        vectors[((((((int64_t)((int)blockIdx.x)) * (int64_t)256) + (((int64_t)i_24) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)64)] = weighted;
        vectors[((((((int64_t)((int)blockIdx.x)) * (int64_t)256) + (((int64_t)i_24) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)128)] = max(min((weighted * of_key), 0x1.c363cbf21f28ap+127f/*3.000000e+38*/), -0x1.c363cbf21f28ap+127f/*-3.000000e+38*/);
        ((float*)betas)[((i_24 * 16) + (((int)threadIdx.x) >> 3))] = max(min((weighted * of_key), 0x1.c363cbf21f28ap+127f/*3.000000e+38*/), -0x1.c363cbf21f28ap+127f/*-3.000000e+38*/);
      }
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_25 = 0; i_25 < 8; ++i_25) {
      float4 __16;
      float4 __17;
      uint2 v__20 = *(uint2*)(q_rows + (i_25 * 4));
      ((float2*)(&__17))[0] = __half22float2(((half2*)(&v__20))[0]);
      ((float2*)(&__17))[1] = __half22float2(((half2*)(&v__20))[1]);
      __16.x = fabsf(__17.x);
      __16.y = fabsf(__17.y);
      __16.z = fabsf(__17.z);
      __16.w = fabsf(__17.w);
      *(float4*)(sums + (i_25 * 4)) = __16;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_26 = 0; i_26 < 4; ++i_26) {
      q_factor[i_26] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int rv_5 = 0; rv_5 < 8; ++rv_5) {
        q_factor[i_26] = (q_factor[i_26] + sums[((i_26 * 8) + rv_5)]);
      }
      q_factor[i_26] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(q_factor[i_26]);
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_27 = 0; i_27 < 4; ++i_27) {
      float v__21 = q_factor[i_27];
      int condval_29;
      if (((*(int *)(&(v__21))) == 0)) {
        condval_29 = 0;
      } else {
        condval_29 = max((((*(int *)(&(v__21))) >> 23) - 130), -126);
      }
      exponent[i_27] = condval_29;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_28 = 0; i_28 < 8; ++i_28) {
      float4 __18;
        float4 __19;
        uint2 v__22 = *(uint2*)(q_rows + (i_28 * 4));
        ((float2*)(&__19))[0] = __half22float2(((half2*)(&v__22))[0]);
        ((float2*)(&__19))[1] = __half22float2(((half2*)(&v__22))[1]);
        int v__23 = (127 - exponent[(i_28 >> 1)]) << 23;
        float4 v__24 = make_float4((*(float *)(&(v__23))), (*(float *)(&(v__23))), (*(float *)(&(v__23))), (*(float *)(&(v__23))));
        __18.x = (__19.x*v__24.x);
        __18.y = (__19.y*v__24.y);
        __18.z = (__19.z*v__24.z);
        __18.w = (__19.w*v__24.w);
      float4 divided_1 = __18;
      float4 __20;
        __20.x = (divided_1.x*divided_1.x);
        __20.y = (divided_1.y*divided_1.y);
        __20.z = (divided_1.z*divided_1.z);
        __20.w = (divided_1.w*divided_1.w);
      *(float4*)(sums + (i_28 * 4)) = __20;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_29 = 0; i_29 < 4; ++i_29) {
      square[i_29] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int rv_6 = 0; rv_6 < 8; ++rv_6) {
        square[i_29] = (square[i_29] + sums[((i_29 * 8) + rv_6)]);
      }
      square[i_29] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(square[i_29]);
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_30 = 0; i_30 < 4; ++i_30) {
      int v__25 = (127 - exponent[i_30]) << 23;
      float condval_30;
      if ((l2norm != 0)) {
        condval_30 = rsqrtf((square[i_30] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
      } else {
        condval_30 = 0x1p+0f/*1.000000e+00*/;
      }
      q_factor[i_30] = ((*(float *)(&(v__25))) * condval_30);
    }
  }
  if (bad != 0) {
    if ((((int)threadIdx.x) % 8) == 0) {
      #pragma unroll
      for (int i_31 = 0; i_31 < 4; ++i_31) {
        float condval_31;
        if (((until <= ((i_31 * 16) + (((int)threadIdx.x) >> 3))) || (spoilt[((i_31 * 16) + (((int)threadIdx.x) >> 3))] == 2))) {
          int _reinterpret_tmp_2 = 2143289344;
          condval_31 = (*(float *)(&(_reinterpret_tmp_2)));
        } else {
          float condval_32;
          if ((l2norm != 0)) {
            int v__26 = (min(exponent[i_31], 0) + 127) << 23;
            int v__27 = (127 - min(max(exponent[i_31], 0), 60)) << 23;
            condval_32 = (((*(float *)(&(v__26))) * (square[i_31] * rsqrtf(max(square[i_31], 0x1.4484bfeebc2ap-100f/*1.000000e-30*/)))) * rsqrtf((((square[i_31] * (*(float *)(&(v__26)))) * (*(float *)(&(v__26)))) + ((0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/ * (*(float *)(&(v__27)))) * (*(float *)(&(v__27)))))));
          } else {
            int v__28 = (exponent[i_31] + 127) << 23;
            condval_32 = (*(float *)(&(v__28)));
          }
          condval_31 = condval_32;
        }
        vectors[((((((int64_t)((int)blockIdx.x)) * (int64_t)256) + (((int64_t)i_31) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)192)] = condval_31;
      }
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_32 = 0; i_32 < 8; ++i_32) {
      float4 __21;
        float4 __22;
        uint2 v__29 = *(uint2*)(q_rows + (i_32 * 4));
        ((float2*)(&__22))[0] = __half22float2(((half2*)(&v__29))[0]);
        ((float2*)(&__22))[1] = __half22float2(((half2*)(&v__29))[1]);
        float4 v__30 = make_float4(q_factor[(i_32 >> 1)], q_factor[(i_32 >> 1)], q_factor[(i_32 >> 1)], q_factor[(i_32 >> 1)]);
        __21.x = (__22.x*v__30.x);
        __21.y = (__22.y*v__30.y);
        __21.z = (__22.z*v__30.z);
        __21.w = (__22.w*v__30.w);
      float4 of_q_row = __21;
      float4 __23;
        float4 __24;
          float4 __25;
          uint2 v__31 = *(uint2*)(k_rows + (i_32 * 4));
          ((float2*)(&__25))[0] = __half22float2(((half2*)(&v__31))[0]);
          ((float2*)(&__25))[1] = __half22float2(((half2*)(&v__31))[1]);
          float4 v__32 = make_float4(k_factor[(i_32 >> 1)], k_factor[(i_32 >> 1)], k_factor[(i_32 >> 1)], k_factor[(i_32 >> 1)]);
          __24.x = (__25.x*v__32.x);
          __24.y = (__25.y*v__32.y);
          __24.z = (__25.z*v__32.z);
          __24.w = (__25.w*v__32.w);
        __23.x = (of_q_row.x*__24.x);
        __23.y = (of_q_row.y*__24.y);
        __23.z = (of_q_row.z*__24.z);
        __23.w = (of_q_row.w*__24.w);
      *(float4*)(sums + (i_32 * 4)) = __23;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_33 = 0; i_33 < 4; ++i_33) {
      own[i_33] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int rv_7 = 0; rv_7 < 8; ++rv_7) {
        own[i_33] = (own[i_33] + sums[((i_33 * 8) + rv_7)]);
      }
      own[i_33] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(own[i_33]);
    }
  }
  if (bad != 0) {
    __syncthreads();
  }
  if (((int)threadIdx.x) < 64) {
    float condval_33;
    if ((until < 64)) {
      int _reinterpret_tmp_3 = 2143289344;
      condval_33 = (*(float *)(&(_reinterpret_tmp_3)));
    } else {
      condval_33 = exp2f((((float*)G)[((((((((int)threadIdx.x) & 7) >> 2) * 32) + ((((int)threadIdx.x) >> 3) * 4)) + (((int)threadIdx.x) & 3)) + 1984)] + ((float*)G)[((((((((int)threadIdx.x) & 7) >> 2) * 32) + ((((int)threadIdx.x) >> 3) * 4)) + (((int)threadIdx.x) & 3)) + 4032)]));
    }
    vectors[((((int64_t)((int)blockIdx.x)) * (int64_t)256) + ((int64_t)((int)threadIdx.x)))] = condval_33;
  }
  if ((((int)threadIdx.x) % 8) == 0) {
    #pragma unroll
    for (int i_34 = 0; i_34 < 4; ++i_34) {
      ((float*)owns)[((i_34 * 16) + (((int)threadIdx.x) >> 3))] = own[i_34];
    }
  }
  #pragma unroll
  for (int i_35 = 0; i_35 < 8; ++i_35) {
    uint2 __26;
    float4 __27;
      float4 __28;
      uint2 v__33 = *(uint2*)(q_rows + (i_35 * 4));
      ((float2*)(&__28))[0] = __half22float2(((half2*)(&v__33))[0]);
      ((float2*)(&__28))[1] = __half22float2(((half2*)(&v__33))[1]);
      float4 v__34 = make_float4(q_factor[(i_35 >> 1)], q_factor[(i_35 >> 1)], q_factor[(i_35 >> 1)], q_factor[(i_35 >> 1)]);
      __27.x = (__28.x*v__34.x);
      __27.y = (__28.y*v__34.y);
      __27.z = (__28.z*v__34.z);
      __27.w = (__28.w*v__34.w);
    ((half2*)(&__26))[0] = __float22half2_rn(((float2*)(&__27))[0]);
    ((half2*)(&__26))[1] = __float22half2_rn(((float2*)(&__27))[1]);
    *(uint2*)(q_unit + (i_35 * 4)) = __26;
  }
  #pragma unroll
  for (int i_36 = 0; i_36 < 8; ++i_36) {
    uint2 __29;
    float4 __30;
      float4 __31;
      uint2 v__35 = *(uint2*)(k_rows + (i_36 * 4));
      ((float2*)(&__31))[0] = __half22float2(((half2*)(&v__35))[0]);
      ((float2*)(&__31))[1] = __half22float2(((half2*)(&v__35))[1]);
      float4 v__36 = make_float4(k_factor[(i_36 >> 1)], k_factor[(i_36 >> 1)], k_factor[(i_36 >> 1)], k_factor[(i_36 >> 1)]);
      __30.x = (__31.x*v__36.x);
      __30.y = (__31.y*v__36.y);
      __30.z = (__31.z*v__36.z);
      __30.w = (__31.w*v__36.w);
    ((half2*)(&__29))[0] = __float22half2_rn(((float2*)(&__30))[0]);
    ((half2*)(&__29))[1] = __float22half2_rn(((float2*)(&__30))[1]);
    *(uint2*)(k_unit + (i_36 * 4)) = __29;
  }
  #pragma unroll
  for (int i_37 = 0; i_37 < 8; ++i_37) {
    float broadcast_var_4 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(pairs_q + (i_37 * 4)) = make_float4(broadcast_var_4, broadcast_var_4, broadcast_var_4, broadcast_var_4);
  }
  #pragma unroll
  for (int i_38 = 0; i_38 < 8; ++i_38) {
    float broadcast_var_5 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(pairs_k + (i_38 * 4)) = make_float4(broadcast_var_5, broadcast_var_5, broadcast_var_5, broadcast_var_5);
  }
  #pragma unroll
  for (int i_39 = 0; i_39 < 8; ++i_39) {
    float G_local_cast[4];
    float G_local_cast_1[4];
    *(float4*)(G_local_cast + 0) = *(float4*)(((float*)G) + (((((i_39 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_39 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    *(float4*)(G_local_cast_1 + 0) = *(float4*)(((float*)G) + (((((i_39 >> 1) * 1024) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_39 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    uint2 __32;
    float4 __33;
    float4 __34;
      float condval_34;
      if ((((((int)threadIdx.x) & 15) >> 3) == 1)) {
        condval_34 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_34 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__37 = make_float4(condval_34, condval_34, condval_34, condval_34);
      float4 __35;
        float4 v__38 = *(float4*)(G_local_cast + 0);
        float4 v__39 = *(float4*)(G_local_cast_1 + 0);
        __35.x = (v__38.x-v__39.x);
        __35.y = (v__38.y-v__39.y);
        __35.z = (v__38.z-v__39.z);
        __35.w = (v__38.w-v__39.w);
      __34.x = (v__37.x*__35.x);
      __34.y = (v__37.y*__35.y);
      __34.z = (v__37.z*__35.z);
      __34.w = (v__37.w*__35.w);
    __33.x = exp2f(__34.x);
    __33.y = exp2f(__34.y);
    __33.z = exp2f(__34.z);
    __33.w = exp2f(__34.w);
    ((half2*)(&__32))[0] = __float22half2_rn(((float2*)(&__33))[0]);
    ((half2*)(&__32))[1] = __float22half2_rn(((float2*)(&__33))[1]);
    *(uint2*)(kept + (i_39 * 4)) = __32;
  }
  #pragma unroll
  for (int i_40 = 0; i_40 < 4; ++i_40) {
    uint4 __36;
      uint4 v__40 = *(uint4*)(q_unit + (i_40 * 8));
      uint4 v__41 = *(uint4*)(kept + (i_40 * 8));
      *(uint1*)(&(__36.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.x)))));
      *(uint1*)(&(__36.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.y)))));
      *(uint1*)(&(__36.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.z)))));
      *(uint1*)(&(__36.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.w)))));
    *(uint4*)(((half_t*)rows_q) + (((((i_40 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __36;
  }
  #pragma unroll
  for (int i_41 = 0; i_41 < 4; ++i_41) {
    uint4 __37;
      uint4 v__42 = *(uint4*)(k_unit + (i_41 * 8));
      uint4 v__43 = *(uint4*)(kept + (i_41 * 8));
      *(uint1*)(&(__37.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.x)))));
      *(uint1*)(&(__37.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.y)))));
      *(uint1*)(&(__37.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.z)))));
      *(uint1*)(&(__37.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.w)))));
    *(uint4*)(((half_t*)rows_k) + (((((i_41 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __37;
  }
  {
    tl::GmmaDescriptor desc_a;
    tl::GmmaDescriptor desc_b;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki = 0; ki < 4; ++ki) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a + ((ki * 32) >> 4)), uint64_t(desc_b + ((ki * 32) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
  }
  {
    tl::GmmaDescriptor desc_a_1;
    tl::GmmaDescriptor desc_b_1;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_1, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_1, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_1 = 0; ki_1 < 4; ++ki_1) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_1 + ((ki_1 * 32) >> 4)), uint64_t(desc_b_1 + ((ki_1 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_1) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_42 = 0; i_42 < 32; ++i_42) {
    float condval_35;
    if (((((((((int)threadIdx.x) >> 5) * 16) + (((i_42 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_42 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_42 & 1))) == 1)) {
      condval_35 = of_q[i_42];
    } else {
      condval_35 = pairs_q[i_42];
    }
    pairs_q[i_42] = condval_35;
    float condval_36;
    if (((((((((int)threadIdx.x) >> 5) * 16) + (((i_42 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_42 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_42 & 1))) == 1)) {
      condval_36 = of_k[i_42];
    } else {
      condval_36 = pairs_k[i_42];
    }
    pairs_k[i_42] = condval_36;
  }
  #pragma unroll
  for (int i_43 = 0; i_43 < 8; ++i_43) {
    float G_local_cast_2[4];
    float G_local_cast_3[4];
    *(float4*)(G_local_cast_2 + 0) = *(float4*)(((float*)G) + (((((i_43 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_43 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    *(float4*)(G_local_cast_3 + 0) = *(float4*)(((float*)G) + ((((((i_43 >> 1) * 1024) + ((((int)threadIdx.x) >> 5) * 256)) + ((i_43 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)) + 64));
    uint2 __38;
    float4 __39;
    float4 __40;
      float condval_37;
      if ((((((int)threadIdx.x) & 31) >> 4) == 1)) {
        condval_37 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_37 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__44 = make_float4(condval_37, condval_37, condval_37, condval_37);
      float4 __41;
        float4 v__45 = *(float4*)(G_local_cast_2 + 0);
        float4 v__46 = *(float4*)(G_local_cast_3 + 0);
        __41.x = (v__45.x-v__46.x);
        __41.y = (v__45.y-v__46.y);
        __41.z = (v__45.z-v__46.z);
        __41.w = (v__45.w-v__46.w);
      __40.x = (v__44.x*__41.x);
      __40.y = (v__44.y*__41.y);
      __40.z = (v__44.z*__41.z);
      __40.w = (v__44.w*__41.w);
    __39.x = exp2f(__40.x);
    __39.y = exp2f(__40.y);
    __39.z = exp2f(__40.z);
    __39.w = exp2f(__40.w);
    ((half2*)(&__38))[0] = __float22half2_rn(((float2*)(&__39))[0]);
    ((half2*)(&__38))[1] = __float22half2_rn(((float2*)(&__39))[1]);
    *(uint2*)(kept + (i_43 * 4)) = __38;
  }
  __syncthreads();
  #pragma unroll
  for (int i_44 = 0; i_44 < 4; ++i_44) {
    uint4 __42;
      uint4 v__47 = *(uint4*)(q_unit + (i_44 * 8));
      uint4 v__48 = *(uint4*)(kept + (i_44 * 8));
      *(uint1*)(&(__42.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.x)))));
      *(uint1*)(&(__42.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.y)))));
      *(uint1*)(&(__42.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.z)))));
      *(uint1*)(&(__42.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.w)))));
    *(uint4*)(((half_t*)rows_q) + (((((i_44 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __42;
  }
  #pragma unroll
  for (int i_45 = 0; i_45 < 4; ++i_45) {
    uint4 __43;
      uint4 v__49 = *(uint4*)(k_unit + (i_45 * 8));
      uint4 v__50 = *(uint4*)(kept + (i_45 * 8));
      *(uint1*)(&(__43.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.x)))));
      *(uint1*)(&(__43.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.y)))));
      *(uint1*)(&(__43.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.z)))));
      *(uint1*)(&(__43.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.w)))));
    *(uint4*)(((half_t*)rows_k) + (((((i_45 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __43;
  }
  {
    tl::GmmaDescriptor desc_a_2;
    tl::GmmaDescriptor desc_b_2;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_2, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_2, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_2 = 0; ki_2 < 4; ++ki_2) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_2 + ((ki_2 * 32) >> 4)), uint64_t(desc_b_2 + ((ki_2 * 32) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_2) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
  }
  {
    tl::GmmaDescriptor desc_a_3;
    tl::GmmaDescriptor desc_b_3;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_3, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_3, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_3 = 0; ki_3 < 4; ++ki_3) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_3 + ((ki_3 * 32) >> 4)), uint64_t(desc_b_3 + ((ki_3 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_3) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_46 = 0; i_46 < 32; ++i_46) {
    float condval_38;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_46 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_46 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_46 & 1))) >> 1) == 1)) {
      condval_38 = of_q[i_46];
    } else {
      condval_38 = pairs_q[i_46];
    }
    pairs_q[i_46] = condval_38;
    float condval_39;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_46 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_46 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_46 & 1))) >> 1) == 1)) {
      condval_39 = of_k[i_46];
    } else {
      condval_39 = pairs_k[i_46];
    }
    pairs_k[i_46] = condval_39;
  }
  #pragma unroll
  for (int i_47 = 0; i_47 < 8; ++i_47) {
    float G_local_cast_4[4];
    float G_local_cast_5[4];
    *(float4*)(G_local_cast_4 + 0) = *(float4*)(((float*)G) + (((((i_47 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_47 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    *(float4*)(G_local_cast_5 + 0) = *(float4*)(((float*)G) + ((((((i_47 >> 1) * 1024) + ((((int)threadIdx.x) >> 6) * 512)) + ((i_47 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)) + 192));
    uint2 __44;
    float4 __45;
    float4 __46;
      float condval_40;
      if ((((((int)threadIdx.x) & 63) >> 5) == 1)) {
        condval_40 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_40 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__51 = make_float4(condval_40, condval_40, condval_40, condval_40);
      float4 __47;
        float4 v__52 = *(float4*)(G_local_cast_4 + 0);
        float4 v__53 = *(float4*)(G_local_cast_5 + 0);
        __47.x = (v__52.x-v__53.x);
        __47.y = (v__52.y-v__53.y);
        __47.z = (v__52.z-v__53.z);
        __47.w = (v__52.w-v__53.w);
      __46.x = (v__51.x*__47.x);
      __46.y = (v__51.y*__47.y);
      __46.z = (v__51.z*__47.z);
      __46.w = (v__51.w*__47.w);
    __45.x = exp2f(__46.x);
    __45.y = exp2f(__46.y);
    __45.z = exp2f(__46.z);
    __45.w = exp2f(__46.w);
    ((half2*)(&__44))[0] = __float22half2_rn(((float2*)(&__45))[0]);
    ((half2*)(&__44))[1] = __float22half2_rn(((float2*)(&__45))[1]);
    *(uint2*)(kept + (i_47 * 4)) = __44;
  }
  __syncthreads();
  #pragma unroll
  for (int i_48 = 0; i_48 < 4; ++i_48) {
    uint4 __48;
      uint4 v__54 = *(uint4*)(q_unit + (i_48 * 8));
      uint4 v__55 = *(uint4*)(kept + (i_48 * 8));
      *(uint1*)(&(__48.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.x)))));
      *(uint1*)(&(__48.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.y)))));
      *(uint1*)(&(__48.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.z)))));
      *(uint1*)(&(__48.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.w)))));
    *(uint4*)(((half_t*)rows_q) + (((((i_48 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __48;
  }
  #pragma unroll
  for (int i_49 = 0; i_49 < 4; ++i_49) {
    uint4 __49;
      uint4 v__56 = *(uint4*)(k_unit + (i_49 * 8));
      uint4 v__57 = *(uint4*)(kept + (i_49 * 8));
      *(uint1*)(&(__49.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.x)))));
      *(uint1*)(&(__49.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.y)))));
      *(uint1*)(&(__49.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.z)))));
      *(uint1*)(&(__49.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.w)))));
    *(uint4*)(((half_t*)rows_k) + (((((i_49 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __49;
  }
  {
    tl::GmmaDescriptor desc_a_4;
    tl::GmmaDescriptor desc_b_4;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_4, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_4, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_4 = 0; ki_4 < 4; ++ki_4) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_4 + ((ki_4 * 32) >> 4)), uint64_t(desc_b_4 + ((ki_4 * 32) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_4) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
  }
  {
    tl::GmmaDescriptor desc_a_5;
    tl::GmmaDescriptor desc_b_5;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_5, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_5, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_5 = 0; ki_5 < 4; ++ki_5) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_5 + ((ki_5 * 32) >> 4)), uint64_t(desc_b_5 + ((ki_5 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_5) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_50 = 0; i_50 < 32; ++i_50) {
    float condval_41;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_50 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_50 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_50 & 1))) >> 2) == 1)) {
      condval_41 = of_q[i_50];
    } else {
      condval_41 = pairs_q[i_50];
    }
    pairs_q[i_50] = condval_41;
    float condval_42;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_50 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_50 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_50 & 1))) >> 2) == 1)) {
      condval_42 = of_k[i_50];
    } else {
      condval_42 = pairs_k[i_50];
    }
    pairs_k[i_50] = condval_42;
  }
  #pragma unroll
  for (int i_51 = 0; i_51 < 8; ++i_51) {
    float G_local_cast_6[4];
    float G_local_cast_7[4];
    *(float4*)(G_local_cast_6 + 0) = *(float4*)(((float*)G) + (((((i_51 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_51 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    *(float4*)(G_local_cast_7 + 0) = *(float4*)(((float*)G) + (((((i_51 >> 1) * 1024) + ((i_51 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)) + 448));
    uint2 __50;
    float4 __51;
    float4 __52;
      float condval_43;
      if (((((int)threadIdx.x) >> 6) == 1)) {
        condval_43 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_43 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__58 = make_float4(condval_43, condval_43, condval_43, condval_43);
      float4 __53;
        float4 v__59 = *(float4*)(G_local_cast_6 + 0);
        float4 v__60 = *(float4*)(G_local_cast_7 + 0);
        __53.x = (v__59.x-v__60.x);
        __53.y = (v__59.y-v__60.y);
        __53.z = (v__59.z-v__60.z);
        __53.w = (v__59.w-v__60.w);
      __52.x = (v__58.x*__53.x);
      __52.y = (v__58.y*__53.y);
      __52.z = (v__58.z*__53.z);
      __52.w = (v__58.w*__53.w);
    __51.x = exp2f(__52.x);
    __51.y = exp2f(__52.y);
    __51.z = exp2f(__52.z);
    __51.w = exp2f(__52.w);
    ((half2*)(&__50))[0] = __float22half2_rn(((float2*)(&__51))[0]);
    ((half2*)(&__50))[1] = __float22half2_rn(((float2*)(&__51))[1]);
    *(uint2*)(kept + (i_51 * 4)) = __50;
  }
  __syncthreads();
  #pragma unroll
  for (int i_52 = 0; i_52 < 4; ++i_52) {
    uint4 __54;
      uint4 v__61 = *(uint4*)(q_unit + (i_52 * 8));
      uint4 v__62 = *(uint4*)(kept + (i_52 * 8));
      *(uint1*)(&(__54.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__61.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__62.x)))));
      *(uint1*)(&(__54.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__61.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__62.y)))));
      *(uint1*)(&(__54.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__61.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__62.z)))));
      *(uint1*)(&(__54.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__61.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__62.w)))));
    *(uint4*)(((half_t*)rows_q) + (((((i_52 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __54;
  }
  #pragma unroll
  for (int i_53 = 0; i_53 < 4; ++i_53) {
    uint4 __55;
      uint4 v__63 = *(uint4*)(k_unit + (i_53 * 8));
      uint4 v__64 = *(uint4*)(kept + (i_53 * 8));
      *(uint1*)(&(__55.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__63.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__64.x)))));
      *(uint1*)(&(__55.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__63.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__64.y)))));
      *(uint1*)(&(__55.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__63.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__64.z)))));
      *(uint1*)(&(__55.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__63.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__64.w)))));
    *(uint4*)(((half_t*)rows_k) + (((((i_53 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __55;
  }
  {
    tl::GmmaDescriptor desc_a_6;
    tl::GmmaDescriptor desc_b_6;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_6, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_6, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_6 = 0; ki_6 < 4; ++ki_6) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_6 + ((ki_6 * 32) >> 4)), uint64_t(desc_b_6 + ((ki_6 * 32) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_6) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
  }
  {
    tl::GmmaDescriptor desc_a_7;
    tl::GmmaDescriptor desc_b_7;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_7, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_7, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_7 = 0; ki_7 < 4; ++ki_7) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_7 + ((ki_7 * 32) >> 4)), uint64_t(desc_b_7 + ((ki_7 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_7) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_54 = 0; i_54 < 32; ++i_54) {
    float condval_44;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_54 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_54 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_54 & 1))) >> 3) == 1)) {
      condval_44 = of_q[i_54];
    } else {
      condval_44 = pairs_q[i_54];
    }
    pairs_q[i_54] = condval_44;
    float condval_45;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_54 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_54 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_54 & 1))) >> 3) == 1)) {
      condval_45 = of_k[i_54];
    } else {
      condval_45 = pairs_k[i_54];
    }
    pairs_k[i_54] = condval_45;
  }
  #pragma unroll
  for (int i_55 = 0; i_55 < 8; ++i_55) {
    float G_local_cast_8[4];
    float G_local_cast_9[4];
    *(float4*)(G_local_cast_8 + 0) = *(float4*)(((float*)G) + (((((i_55 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_55 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    *(float4*)(G_local_cast_9 + 0) = *(float4*)(((float*)G) + (((((i_55 >> 2) * 2048) + ((i_55 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)) + 960));
    uint2 __56;
    float4 __57;
    float4 __58;
      float condval_46;
      if ((((i_55 & 3) >> 1) == 1)) {
        condval_46 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_46 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__65 = make_float4(condval_46, condval_46, condval_46, condval_46);
      float4 __59;
        float4 v__66 = *(float4*)(G_local_cast_8 + 0);
        float4 v__67 = *(float4*)(G_local_cast_9 + 0);
        __59.x = (v__66.x-v__67.x);
        __59.y = (v__66.y-v__67.y);
        __59.z = (v__66.z-v__67.z);
        __59.w = (v__66.w-v__67.w);
      __58.x = (v__65.x*__59.x);
      __58.y = (v__65.y*__59.y);
      __58.z = (v__65.z*__59.z);
      __58.w = (v__65.w*__59.w);
    __57.x = exp2f(__58.x);
    __57.y = exp2f(__58.y);
    __57.z = exp2f(__58.z);
    __57.w = exp2f(__58.w);
    ((half2*)(&__56))[0] = __float22half2_rn(((float2*)(&__57))[0]);
    ((half2*)(&__56))[1] = __float22half2_rn(((float2*)(&__57))[1]);
    *(uint2*)(kept + (i_55 * 4)) = __56;
  }
  __syncthreads();
  #pragma unroll
  for (int i_56 = 0; i_56 < 4; ++i_56) {
    uint4 __60;
      uint4 v__68 = *(uint4*)(q_unit + (i_56 * 8));
      uint4 v__69 = *(uint4*)(kept + (i_56 * 8));
      *(uint1*)(&(__60.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__68.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__69.x)))));
      *(uint1*)(&(__60.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__68.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__69.y)))));
      *(uint1*)(&(__60.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__68.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__69.z)))));
      *(uint1*)(&(__60.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__68.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__69.w)))));
    *(uint4*)(((half_t*)rows_q) + (((((i_56 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __60;
  }
  #pragma unroll
  for (int i_57 = 0; i_57 < 4; ++i_57) {
    uint4 __61;
      uint4 v__70 = *(uint4*)(k_unit + (i_57 * 8));
      uint4 v__71 = *(uint4*)(kept + (i_57 * 8));
      *(uint1*)(&(__61.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__70.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__71.x)))));
      *(uint1*)(&(__61.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__70.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__71.y)))));
      *(uint1*)(&(__61.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__70.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__71.z)))));
      *(uint1*)(&(__61.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__70.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__71.w)))));
    *(uint4*)(((half_t*)rows_k) + (((((i_57 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __61;
  }
  {
    tl::GmmaDescriptor desc_a_8;
    tl::GmmaDescriptor desc_b_8;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_8, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_8, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_8 = 0; ki_8 < 4; ++ki_8) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_8 + ((ki_8 * 32) >> 4)), uint64_t(desc_b_8 + ((ki_8 * 32) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_8) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
  }
  {
    tl::GmmaDescriptor desc_a_9;
    tl::GmmaDescriptor desc_b_9;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_9, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_9, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_9 = 0; ki_9 < 4; ++ki_9) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_9 + ((ki_9 * 32) >> 4)), uint64_t(desc_b_9 + ((ki_9 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_9) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_58 = 0; i_58 < 32; ++i_58) {
    float condval_47;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_58 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_58 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_58 & 1))) >> 4) == 1)) {
      condval_47 = of_q[i_58];
    } else {
      condval_47 = pairs_q[i_58];
    }
    pairs_q[i_58] = condval_47;
    float condval_48;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_58 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_58 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_58 & 1))) >> 4) == 1)) {
      condval_48 = of_k[i_58];
    } else {
      condval_48 = pairs_k[i_58];
    }
    pairs_k[i_58] = condval_48;
  }
  #pragma unroll
  for (int i_59 = 0; i_59 < 8; ++i_59) {
    float G_local_cast_10[4];
    float G_local_cast_11[4];
    *(float4*)(G_local_cast_10 + 0) = *(float4*)(((float*)G) + ((((i_59 & 1) * 32) + ((((int)threadIdx.x) & 7) * 4)) + 1984));
    *(float4*)(G_local_cast_11 + 0) = *(float4*)(((float*)G) + (((((i_59 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_59 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    uint2 __62;
    float4 __63;
    float4 condval_49;
    if ((i_59 < 4)) {
      float4 __64;
        float4 v__72 = *(float4*)(G_local_cast_10 + 0);
        float4 v__73 = *(float4*)(G_local_cast_11 + 0);
        __64.x = (v__72.x-v__73.x);
        __64.y = (v__72.y-v__73.y);
        __64.z = (v__72.z-v__73.z);
        __64.w = (v__72.w-v__73.w);
      condval_49 = __64;
    } else {
      condval_49 = *(float4*)(G_local_cast_11 + 0);
    }
    __63.x = exp2f(condval_49.x);
    __63.y = exp2f(condval_49.y);
    __63.z = exp2f(condval_49.z);
    __63.w = exp2f(condval_49.w);
    ((half2*)(&__62))[0] = __float22half2_rn(((float2*)(&__63))[0]);
    ((half2*)(&__62))[1] = __float22half2_rn(((float2*)(&__63))[1]);
    *(uint2*)(kept + (i_59 * 4)) = __62;
  }
  __syncthreads();
  #pragma unroll
  for (int i_60 = 0; i_60 < 4; ++i_60) {
    uint4 __65;
      uint4 v__74 = *(uint4*)(q_unit + (i_60 * 8));
      uint4 v__75 = *(uint4*)(kept + (i_60 * 8));
      *(uint1*)(&(__65.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__74.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__75.x)))));
      *(uint1*)(&(__65.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__74.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__75.y)))));
      *(uint1*)(&(__65.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__74.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__75.z)))));
      *(uint1*)(&(__65.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__74.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__75.w)))));
    *(uint4*)(((half_t*)rows_q) + (((((i_60 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __65;
  }
  #pragma unroll
  for (int i_61 = 0; i_61 < 4; ++i_61) {
    uint4 __66;
      uint4 v__76 = *(uint4*)(k_unit + (i_61 * 8));
      uint4 v__77 = *(uint4*)(kept + (i_61 * 8));
      *(uint1*)(&(__66.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__76.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__77.x)))));
      *(uint1*)(&(__66.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__76.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__77.y)))));
      *(uint1*)(&(__66.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__76.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__77.z)))));
      *(uint1*)(&(__66.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__76.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__77.w)))));
    *(uint4*)(((half_t*)rows_k) + (((((i_61 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __66;
  }
  {
    tl::GmmaDescriptor desc_a_10;
    tl::GmmaDescriptor desc_b_10;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_10, (&(((half_t*)rows_q)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_10, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_10 = 0; ki_10 < 4; ++ki_10) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_10 + ((ki_10 * 32) >> 4)), uint64_t(desc_b_10 + ((ki_10 * 32) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_10) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
  }
  {
    tl::GmmaDescriptor desc_a_11;
    tl::GmmaDescriptor desc_b_11;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_11, (&(((half_t*)rows_k)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_11, (&(((half_t*)rows_k)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_11 = 0; ki_11 < 4; ++ki_11) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_11 + ((ki_11 * 32) >> 4)), uint64_t(desc_b_11 + ((ki_11 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_11) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  tl::wait_wgmma<0>();
  #pragma unroll
  for (int i_62 = 0; i_62 < 32; ++i_62) {
    float condval_50;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_62 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_62 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_62 & 1))) >> 5) == 1)) {
      condval_50 = of_q[i_62];
    } else {
      condval_50 = pairs_q[i_62];
    }
    pairs_q[i_62] = condval_50;
    float condval_51;
    if ((((((((((int)threadIdx.x) >> 5) * 16) + (((i_62 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ ((((i_62 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_62 & 1))) >> 5) == 1)) {
      condval_51 = of_k[i_62];
    } else {
      condval_51 = pairs_k[i_62];
    }
    pairs_k[i_62] = condval_51;
  }
  __syncthreads();
  #pragma unroll
  for (int i_63 = 0; i_63 < 32; ++i_63) {
    float condval_52;
    if ((((((i_63 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_63 & 1)) < ((((((int)threadIdx.x) >> 5) * 16) + (((i_63 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)))) {
      condval_52 = pairs_q[i_63];
    } else {
      float condval_53;
      if ((((((((int)threadIdx.x) >> 5) * 16) + (((i_63 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) == ((((i_63 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_63 & 1)))) {
        condval_53 = ((float*)owns)[((((((int)threadIdx.x) >> 5) * 16) + (((i_63 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))];
      } else {
        condval_53 = 0x0p+0f/*0.000000e+00*/;
      }
      condval_52 = condval_53;
    }
    ((half_t*)M)[(((((((((((int)threadIdx.x) >> 5) * 1024) + (((i_63 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + ((((i_63 >> 4) + ((((int)threadIdx.x) & 31) >> 4)) & 1) * 32)) + (((((i_63 & 15) >> 3) + ((((int)threadIdx.x) & 15) >> 3)) & 1) * 16)) + (((((i_63 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_63 & 1))] = ((half_t)condval_52);
  }
  #pragma unroll
  for (int i_64 = 0; i_64 < 32; ++i_64) {
    float condval_54;
    if ((((((i_64 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_64 & 1)) < ((((((int)threadIdx.x) >> 5) * 16) + (((i_64 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)))) {
      condval_54 = (((float*)betas)[((((((int)threadIdx.x) >> 5) * 16) + (((i_64 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] * pairs_k[i_64]);
    } else {
      condval_54 = 0x0p+0f/*0.000000e+00*/;
    }
    pairs_k[i_64] = condval_54;
  }
  __syncthreads();
  #pragma unroll
  for (int i_65 = 0; i_65 < 4; ++i_65) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)L)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_65 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_65 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)pairs_k[(i_65 * 8)]), ((half_t)pairs_k[((i_65 * 8) + 1)])), __pack_half2(((half_t)pairs_k[((i_65 * 8) + 2)]), ((half_t)pairs_k[((i_65 * 8) + 3)])), __pack_half2(((half_t)pairs_k[((i_65 * 8) + 4)]), ((half_t)pairs_k[((i_65 * 8) + 5)])), __pack_half2(((half_t)pairs_k[((i_65 * 8) + 6)]), ((half_t)pairs_k[((i_65 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_66 = 0; i_66 < 32; ++i_66) {
    if ((((int)threadIdx.x) >> 5) == (i_66 >> 3)) {
      ((float*)diagonal)[(((((((((int)threadIdx.x) >> 5) * 272) + (((i_66 & 3) >> 1) * 136)) + (((((int)threadIdx.x) & 31) >> 2) * 17)) + (((i_66 & 7) >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_66 & 1))] = pairs_k[i_66];
    }
  }
  #pragma unroll
  for (int i_67 = 0; i_67 < 4; ++i_67) {
    half_t broadcast_var_6 = half_t(0x0p+0f/*0.000000e+00*/);
    *(uint4*)(((half_t*)X) + (((((i_67 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = make_uint4(__pack_half2(broadcast_var_6, broadcast_var_6), __pack_half2(broadcast_var_6, broadcast_var_6), __pack_half2(broadcast_var_6, broadcast_var_6), __pack_half2(broadcast_var_6, broadcast_var_6));
    half_t broadcast_var_7 = half_t(0x0p+0f/*0.000000e+00*/);
    *(uint4*)(((half_t*)Xt) + (((((i_67 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = make_uint4(__pack_half2(broadcast_var_7, broadcast_var_7), __pack_half2(broadcast_var_7, broadcast_var_7), __pack_half2(broadcast_var_7, broadcast_var_7), __pack_half2(broadcast_var_7, broadcast_var_7));
  }
  #pragma unroll
  for (int i_68 = 0; i_68 < 8; ++i_68) {
    float G_local_cast_12[4];
    float G_local_cast_13[4];
    *(float4*)(G_local_cast_12 + 0) = *(float4*)(((float*)G) + (((((i_68 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_68 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    *(float4*)(G_local_cast_13 + 0) = *(float4*)(((float*)G) + ((((i_68 & 1) * 32) + ((((int)threadIdx.x) & 7) * 4)) + 1984));
    float broadcast_var_8 = 0x0p+0f/*0.000000e+00*/;
    uint2 __67;
    float4 __68;
    float4 __69;
      float4 v__78 = *(float4*)(G_local_cast_12 + 0);
      float4 condval_55;
      if ((i_68 < 4)) {
        condval_55 = make_float4(broadcast_var_8, broadcast_var_8, broadcast_var_8, broadcast_var_8);
      } else {
        condval_55 = *(float4*)(G_local_cast_13 + 0);
      }
      __69.x = (v__78.x+condval_55.x);
      __69.y = (v__78.y+condval_55.y);
      __69.z = (v__78.z+condval_55.z);
      __69.w = (v__78.w+condval_55.w);
    __68.x = exp2f(__69.x);
    __68.y = exp2f(__69.y);
    __68.z = exp2f(__69.z);
    __68.w = exp2f(__69.w);
    ((half2*)(&__67))[0] = __float22half2_rn(((float2*)(&__68))[0]);
    ((half2*)(&__67))[1] = __float22half2_rn(((float2*)(&__68))[1]);
    *(uint2*)(kept + (i_68 * 4)) = __67;
  }
  #pragma unroll
  for (int i_69 = 0; i_69 < 4; ++i_69) {
    uint4 __70;
      uint4 v__79 = *(uint4*)(k_unit + (i_69 * 8));
      uint4 v__80 = *(uint4*)(kept + (i_69 * 8));
      *(uint1*)(&(__70.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__79.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__80.x)))));
      *(uint1*)(&(__70.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__79.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__80.y)))));
      *(uint1*)(&(__70.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__79.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__80.z)))));
      *(uint1*)(&(__70.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__79.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__80.w)))));
    *(uint4*)(operators + (((((int64_t)((int)blockIdx.x)) * (int64_t)12288) + (((int64_t)i_69) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))) = __70;
  }
  #pragma unroll
  for (int i_70 = 0; i_70 < 4; ++i_70) {
    uint4 __71;
      uint4 v__81 = *(uint4*)(q_unit + (i_70 * 8));
      uint4 v__82 = *(uint4*)(kept + (i_70 * 8));
      *(uint1*)(&(__71.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__81.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__82.x)))));
      *(uint1*)(&(__71.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__81.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__82.y)))));
      *(uint1*)(&(__71.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__81.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__82.z)))));
      *(uint1*)(&(__71.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__81.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__82.w)))));
    *(uint4*)(operators + ((((((int64_t)((int)blockIdx.x)) * (int64_t)12288) + (((int64_t)i_70) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)4096)) = __71;
  }
  #pragma unroll
  for (int i_71 = 0; i_71 < 8; ++i_71) {
    float G_local_cast_14[4];
    float G_local_cast_15[4];
    float G_local_cast_16[4];
    *(float4*)(G_local_cast_14 + 0) = *(float4*)(((float*)G) + ((((i_71 & 1) * 32) + ((((int)threadIdx.x) & 7) * 4)) + 4032));
    *(float4*)(G_local_cast_15 + 0) = *(float4*)(((float*)G) + (((((i_71 >> 1) * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + ((i_71 & 1) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
    *(float4*)(G_local_cast_16 + 0) = *(float4*)(((float*)G) + ((((i_71 & 1) * 32) + ((((int)threadIdx.x) & 7) * 4)) + 1984));
    float broadcast_var_9 = 0x0p+0f/*0.000000e+00*/;
    uint2 __72;
    float4 __73;
    float4 __74;
      float4 __75;
        float4 v__83 = *(float4*)(G_local_cast_14 + 0);
        float4 v__84 = *(float4*)(G_local_cast_15 + 0);
        __75.x = (v__83.x-v__84.x);
        __75.y = (v__83.y-v__84.y);
        __75.z = (v__83.z-v__84.z);
        __75.w = (v__83.w-v__84.w);
      float4 condval_56;
      if ((i_71 < 4)) {
        condval_56 = *(float4*)(G_local_cast_16 + 0);
      } else {
        condval_56 = make_float4(broadcast_var_9, broadcast_var_9, broadcast_var_9, broadcast_var_9);
      }
      __74.x = (__75.x+condval_56.x);
      __74.y = (__75.y+condval_56.y);
      __74.z = (__75.z+condval_56.z);
      __74.w = (__75.w+condval_56.w);
    __73.x = exp2f(__74.x);
    __73.y = exp2f(__74.y);
    __73.z = exp2f(__74.z);
    __73.w = exp2f(__74.w);
    ((half2*)(&__72))[0] = __float22half2_rn(((float2*)(&__73))[0]);
    ((half2*)(&__72))[1] = __float22half2_rn(((float2*)(&__73))[1]);
    *(uint2*)(kept + (i_71 * 4)) = __72;
  }
  __syncthreads();
  #pragma unroll
  for (int i_72 = 0; i_72 < 4; ++i_72) {
    uint4 __76;
      uint4 v__85 = *(uint4*)(k_unit + (i_72 * 8));
      uint4 v__86 = *(uint4*)(kept + (i_72 * 8));
      *(uint1*)(&(__76.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__85.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__86.x)))));
      *(uint1*)(&(__76.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__85.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__86.y)))));
      *(uint1*)(&(__76.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__85.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__86.z)))));
      *(uint1*)(&(__76.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__85.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__86.w)))));
    *(uint4*)(((half_t*)remaining) + (((((i_72 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __76;
  }
  if (((int)threadIdx.x) < 64) {
    #pragma unroll
    for (int i_73 = 0; i_73 < 16; ++i_73) {
      float condval_57;
      if (((((int)threadIdx.x) & 15) == i_73)) {
        condval_57 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_57 = 0x0p+0f/*0.000000e+00*/;
      }
      solution[i_73] = condval_57;
      #pragma unroll
      for (int j_1 = 0; j_1 < 16; ++j_1) {
        if (j_1 < i_73) {
          solution[i_73] = (solution[i_73] - (((float*)diagonal)[((((((int)threadIdx.x) >> 4) * 272) + (i_73 * 17)) + j_1)] * solution[j_1]));
        }
      }
      ((half_t*)X)[(((((((((int)threadIdx.x) >> 4) * 1024) + (i_73 * 64)) + ((((((int)threadIdx.x) >> 5) + ((i_73 & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((i_73 & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (i_73 & 1)) & 1) * 8)) + (((int)threadIdx.x) & 7))] = ((half_t)solution[i_73]);
      ((half_t*)Xt)[(((((((int)threadIdx.x) * 64) + ((((((int)threadIdx.x) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + ((((i_73 >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + (i_73 & 7))] = ((half_t)solution[i_73]);
    }
  }
  {
    tl::GmmaDescriptor desc_a_12;
    tl::GmmaDescriptor desc_b_12;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_12, (&(((half_t*)L)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_12, (&(((half_t*)Xt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_12 = 0; ki_12 < 4; ++ki_12) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_12 + ((ki_12 * 32) >> 4)), uint64_t(desc_b_12 + ((ki_12 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_12) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  __syncthreads();
  #pragma unroll
  for (int i_74 = 0; i_74 < 32; ++i_74) {
    float condval_58;
    if ((((((int)threadIdx.x) >> 5) == ((i_74 >> 3) + 1)) && (((i_74 & 15) >> 3) == 0))) {
      condval_58 = of_k[i_74];
    } else {
      condval_58 = 0x0p+0f/*0.000000e+00*/;
    }
    ((half_t*)Pt)[((((((((i_74 >> 2) * 512) + ((((int)threadIdx.x) & 3) * 128)) + ((i_74 & 1) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_74 & 3) >> 1) + (i_74 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)condval_58);
  }
  {
    tl::GmmaDescriptor desc_a_13;
    tl::GmmaDescriptor desc_b_13;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_13, (&(((half_t*)X)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_13, (&(((half_t*)Pt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_13 = 0; ki_13 < 4; ++ki_13) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_13 + ((ki_13 * 32) >> 4)), uint64_t(desc_b_13 + ((ki_13 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_13) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  __syncthreads();
  #pragma unroll
  for (int i_75 = 0; i_75 < 32; ++i_75) {
    if (((((int)threadIdx.x) >> 5) == ((i_75 >> 3) + 1)) && (((i_75 & 15) >> 3) == 0)) {
      ((half_t*)X)[(((((((((((int)threadIdx.x) >> 5) * 1024) + (((i_75 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + ((((i_75 >> 4) + ((((int)threadIdx.x) & 31) >> 4)) & 1) * 32)) + (((((int)threadIdx.x) & 15) >> 3) * 16)) + (((((i_75 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_75 & 1))] = ((half_t)(of_k[i_75] * -0x1p+0f/*-1.000000e+00*/));
      ((half_t*)Xt)[((((((((i_75 >> 2) * 512) + ((((int)threadIdx.x) & 3) * 128)) + ((i_75 & 1) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_75 & 3) >> 1) + (i_75 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)(of_k[i_75] * -0x1p+0f/*-1.000000e+00*/));
    }
  }
  {
    tl::GmmaDescriptor desc_a_14;
    tl::GmmaDescriptor desc_b_14;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_14, (&(((half_t*)L)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_14, (&(((half_t*)Xt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_14 = 0; ki_14 < 4; ++ki_14) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_14 + ((ki_14 * 32) >> 4)), uint64_t(desc_b_14 + ((ki_14 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_14) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  __syncthreads();
  #pragma unroll
  for (int i_76 = 0; i_76 < 32; ++i_76) {
    float condval_59;
    if ((((((int)threadIdx.x) >> 6) == ((i_76 >> 4) + 1)) && ((i_76 >> 4) == 0))) {
      condval_59 = of_k[i_76];
    } else {
      condval_59 = 0x0p+0f/*0.000000e+00*/;
    }
    ((half_t*)Pt)[((((((((i_76 >> 2) * 512) + ((((int)threadIdx.x) & 3) * 128)) + ((i_76 & 1) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_76 & 3) >> 1) + (i_76 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)condval_59);
  }
  {
    tl::GmmaDescriptor desc_a_15;
    tl::GmmaDescriptor desc_b_15;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_15, (&(((half_t*)X)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_15, (&(((half_t*)Pt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_15 = 0; ki_15 < 4; ++ki_15) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_15 + ((ki_15 * 32) >> 4)), uint64_t(desc_b_15 + ((ki_15 * 32) >> 4)), ((uint32_t*)(of_k + 0)), ((0 < ki_15) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_wait<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_k + 0), 32);
  }
  __syncthreads();
  #pragma unroll
  for (int i_77 = 0; i_77 < 32; ++i_77) {
    if (((((int)threadIdx.x) >> 6) == ((i_77 >> 4) + 1)) && ((i_77 >> 4) == 0)) {
      ((half_t*)X)[(((((((((((int)threadIdx.x) >> 5) * 1024) + (((i_77 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + (((((int)threadIdx.x) & 31) >> 4) * 32)) + (((((i_77 & 15) >> 3) + ((((int)threadIdx.x) & 15) >> 3)) & 1) * 16)) + (((((i_77 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_77 & 1))] = ((half_t)(of_k[i_77] * -0x1p+0f/*-1.000000e+00*/));
      ((half_t*)Xt)[((((((((i_77 >> 2) * 512) + ((((int)threadIdx.x) & 3) * 128)) + ((i_77 & 1) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_77 & 3) >> 1) + (i_77 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)(of_k[i_77] * -0x1p+0f/*-1.000000e+00*/));
    }
  }
  {
    tl::GmmaDescriptor desc_a_16;
    tl::GmmaDescriptor desc_b_16;
    __syncthreads();
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_16, (&(((half_t*)M)[0])));
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_16, (&(((half_t*)Xt)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
    tl::warpgroup_arrive();
    tl::fence_proxy_async();
    #pragma unroll
    for (int ki_16 = 0; ki_16 < 4; ++ki_16) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>(uint64_t(desc_a_16 + ((ki_16 * 32) >> 4)), uint64_t(desc_b_16 + ((ki_16 * 32) >> 4)), ((uint32_t*)(of_q + 0)), ((0 < ki_16) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(of_q + 0), 32);
  }
  {
    tl::GmmaDescriptor desc_a_17;
    tl::GmmaDescriptor desc_b_17;
    tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_17, (&(((half_t*)Xt)[0])));
    tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_17, (&(((half_t*)remaining)[0])));
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(Kr + 0), 32);
    tl::warpgroup_arrive();
    #pragma unroll
    for (int ki_17 = 0; ki_17 < 4; ++ki_17) {
      tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a_17 + ((ki_17 * 32) >> 4)), uint64_t(desc_b_17 + ((ki_17 * 2048) >> 4)), ((uint32_t*)(Kr + 0)), ((0 < ki_17) ? 1 : 0));
    }
    tl::warpgroup_commit_batch();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(Kr + 0), 32);
  }
  tl::wait_wgmma<0>();
  __syncthreads();
  #pragma unroll
  for (int i_78 = 0; i_78 < 4; ++i_78) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)B)[(((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (i_78 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), __pack_half2(((half_t)of_q[(i_78 * 8)]), ((half_t)of_q[((i_78 * 8) + 1)])), __pack_half2(((half_t)of_q[((i_78 * 8) + 2)]), ((half_t)of_q[((i_78 * 8) + 3)])), __pack_half2(((half_t)of_q[((i_78 * 8) + 4)]), ((half_t)of_q[((i_78 * 8) + 5)])), __pack_half2(((half_t)of_q[((i_78 * 8) + 6)]), ((half_t)of_q[((i_78 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_79 = 0; i_79 < 4; ++i_79) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)rows_k)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_79 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_79 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Kr[(i_79 * 8)]), ((half_t)Kr[((i_79 * 8) + 1)])), __pack_half2(((half_t)Kr[((i_79 * 8) + 2)]), ((half_t)Kr[((i_79 * 8) + 3)])), __pack_half2(((half_t)Kr[((i_79 * 8) + 4)]), ((half_t)Kr[((i_79 * 8) + 5)])), __pack_half2(((half_t)Kr[((i_79 * 8) + 6)]), ((half_t)Kr[((i_79 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_80 = 0; i_80 < 4; ++i_80) {
    *(uint4*)(triangles + (((((int64_t)((int)blockIdx.x)) * (int64_t)4096) + (((int64_t)i_80) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))) = *(uint4*)(((half_t*)B) + ((i_80 * 1024) + (((int)threadIdx.x) * 8)));
  }
  #pragma unroll
  for (int i_81 = 0; i_81 < 4; ++i_81) {
    *(uint4*)(operators + ((((((int64_t)((int)blockIdx.x)) * (int64_t)12288) + (((int64_t)i_81) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)8192)) = *(uint4*)(((half_t*)rows_k) + (((((i_81 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)));
  }
}

cudaError_t kda_prepare_k64_f16_varlen(const KdaPrepare& arguments, cudaStream_t stream) {
  static Prepared prepared{0};
  return launch(kda_prepare_k64_f16_varlen_kernel, prepared, dim3(static_cast<unsigned>(arguments.places * arguments.HV)), dim3(128, 1, 1),
                63488, stream,
                static_cast<const half_t*>(arguments.A_log),
                static_cast<const float*>(arguments.A_log_f32),
                static_cast<const half_t*>(arguments.beta),
                static_cast<const float*>(arguments.beta_f32),
                static_cast<const int*>(arguments.cu_seqlens),
                static_cast<const half_t*>(arguments.dt_bias),
                static_cast<const float*>(arguments.dt_bias_f32),
                static_cast<const half_t*>(arguments.g),
                static_cast<const float*>(arguments.g_f32),
                static_cast<const half_t*>(arguments.k),
                static_cast<half_t*>(arguments.operators),
                static_cast<const half_t*>(arguments.q),
                static_cast<half_t*>(arguments.triangles),
                static_cast<float*>(arguments.vectors),
                arguments.A_log_head,
                arguments.A_log_is_f32,
                arguments.HV,
                arguments.N,
                arguments.beta_batch,
                arguments.beta_factor,
                arguments.beta_head,
                arguments.beta_is_f32,
                arguments.beta_sigmoid,
                arguments.beta_token,
                arguments.cu_seqlens_stride,
                arguments.cu_seqlens_wide,
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
                arguments.search_steps,
                arguments.tokens);
}

}  // namespace fla::tilelang::generated
