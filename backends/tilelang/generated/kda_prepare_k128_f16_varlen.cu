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

static __global__ void __launch_bounds__(256, 2) kda_prepare_k128_f16_varlen_kernel(const half_t* __restrict__ A_log, const float* __restrict__ A_log_f32, const half_t* __restrict__ beta, const float* __restrict__ beta_f32, const int* __restrict__ cu_seqlens, const half_t* __restrict__ dt_bias, const float* __restrict__ dt_bias_f32, const half_t* __restrict__ g, const float* __restrict__ g_f32, const half_t* __restrict__ k, half_t* __restrict__ operators, const half_t* __restrict__ q, half_t* __restrict__ triangles, float* __restrict__ vectors, int64_t A_log_head, int A_log_is_f32, int HV, int N, int64_t beta_batch, float beta_factor, int64_t beta_head, int beta_is_f32, int beta_sigmoid, int64_t beta_token, int64_t cu_seqlens_stride, int cu_seqlens_wide, int64_t dt_bias_channel, int64_t dt_bias_head, int dt_bias_is_f32, int64_t g_batch, int64_t g_channel, int64_t g_head, int g_is_f32, int g_token, int gate, int group, int has_A_log, int has_dt_bias, int64_t k_batch, int64_t k_head, int64_t k_token, int l2norm, float lower_bound, int places, int64_t q_batch, int64_t q_head, int64_t q_token, int search_steps, int tokens) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* G = ((void*)((char*)buf_dyn_shmem + 0));
  void* remaining = ((void*)((char*)buf_dyn_shmem + 0));
  void* Pt = ((void*)((char*)buf_dyn_shmem + 16384));
  void* betas = ((void*)((char*)buf_dyn_shmem + 32768));
  void* owns = ((void*)((char*)buf_dyn_shmem + 33024));
  void* weights = ((void*)((char*)buf_dyn_shmem + 33280));
  void* M = ((void*)((char*)buf_dyn_shmem + 33792));
  void* rows_q = ((void*)((char*)buf_dyn_shmem + 33792));
  void* L = ((void*)((char*)buf_dyn_shmem + 41984));
  void* rows_k = ((void*)((char*)buf_dyn_shmem + 50176));
  void* B = ((void*)((char*)buf_dyn_shmem + 66560));
  void* diagonal = ((void*)((char*)buf_dyn_shmem + 66560));
  void* X = ((void*)((char*)buf_dyn_shmem + 71680));
  void* Xt = ((void*)((char*)buf_dyn_shmem + 79872));
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
  int mark = 0;
  __shared__ __align__(16) int spoilt[64];
  int q_exponent[4];
  int k_exponent[4];
  half_t q_unit[32];
  half_t k_unit[32];
  float own[4];
  float pairs_q[16];
  float pairs_k[16];
  half_t kept[32];
  float of_q[16];
  float of_k[16];
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
    if ((((i * 16) + (((int)threadIdx.x) >> 4)) < count)) {
      condval_10 = *(uint4*)(q + (((((((int64_t)batch) * q_batch) * (int64_t)8) + (((((int64_t)first) + ((int64_t)min(((i * 16) + (((int)threadIdx.x) >> 4)), (count - 1)))) * q_token) * (int64_t)8)) + ((((int64_t)(head / group)) * q_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
    } else {
      condval_10 = make_uint4(__pack_half2(broadcast_var, broadcast_var), __pack_half2(broadcast_var, broadcast_var), __pack_half2(broadcast_var, broadcast_var), __pack_half2(broadcast_var, broadcast_var));
    }
    *(uint4*)(q_rows + (i * 8)) = condval_10;
  }
  #pragma unroll
  for (int i_1 = 0; i_1 < 4; ++i_1) {
    half_t broadcast_var_1 = half_t(0x0p+0f/*0.000000e+00*/);
    uint4 condval_11;
    if ((((i_1 * 16) + (((int)threadIdx.x) >> 4)) < count)) {
      condval_11 = *(uint4*)(k + (((((((int64_t)batch) * k_batch) * (int64_t)8) + (((((int64_t)first) + ((int64_t)min(((i_1 * 16) + (((int)threadIdx.x) >> 4)), (count - 1)))) * k_token) * (int64_t)8)) + ((((int64_t)(head / group)) * k_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
    } else {
      condval_11 = make_uint4(__pack_half2(broadcast_var_1, broadcast_var_1), __pack_half2(broadcast_var_1, broadcast_var_1), __pack_half2(broadcast_var_1, broadcast_var_1), __pack_half2(broadcast_var_1, broadcast_var_1));
    }
    *(uint4*)(k_rows + (i_1 * 8)) = condval_11;
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
    if (((((((int)threadIdx.x) >> 7) * 32) + i_6) < count)) {
      condval_13 = fla::tilelang::larger_of((0x1.71547652b82fep+0f/*1.442695e+00*/ * raw[i_6]), -0x1.4p+7f/*-1.600000e+02*/);
    } else {
      condval_13 = 0x0p+0f/*0.000000e+00*/;
    }
    decay = (decay + condval_13);
    ((float*)G)[((((((((int)threadIdx.x) >> 7) * 4096) + (i_6 * 128)) + (((((int)threadIdx.x) & 7) >> 2) * 64)) + (((((int)threadIdx.x) & 127) >> 3) * 4)) + (((int)threadIdx.x) & 3))] = decay;
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
    float _reinterpret_tmp_1 = rate;
    if (2139095040 <= ((*(int *)(&(_reinterpret_tmp_1))) & 2147483647)) {
      bad = 1;
    }
  }
  if (l2norm != 0) {
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
  } else {
    #pragma unroll
    for (int i_8 = 0; i_8 < 8; ++i_8) {
      float4 __5;
      float4 __6;
      uint2 v__1 = *(uint2*)(q_rows + (i_8 * 4));
      ((float2*)(&__6))[0] = __half22float2(((half2*)(&v__1))[0]);
      ((float2*)(&__6))[1] = __half22float2(((half2*)(&v__1))[1]);
      __5.x = fabsf(__6.x);
      __5.y = fabsf(__6.y);
      __5.z = fabsf(__6.z);
      __5.w = fabsf(__6.w);
      *(float4*)(sums + (i_8 * 4)) = __5;
    }
  }
  #pragma unroll
  for (int i_9 = 0; i_9 < 4; ++i_9) {
    q_factor[i_9] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv = 0; rv < 8; ++rv) {
      q_factor[i_9] = (q_factor[i_9] + sums[((i_9 * 8) + rv)]);
    }
    q_factor[i_9] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<256>>::run(q_factor[i_9]);
  }
  if (l2norm != 0) {
    #pragma unroll
    for (int i_10 = 0; i_10 < 8; ++i_10) {
      float4 __7;
        float4 __8;
        uint2 v__2 = *(uint2*)(k_rows + (i_10 * 4));
        ((float2*)(&__8))[0] = __half22float2(((half2*)(&v__2))[0]);
        ((float2*)(&__8))[1] = __half22float2(((half2*)(&v__2))[1]);
        float4 __9;
        ((float2*)(&__9))[0] = __half22float2(((half2*)(&v__2))[0]);
        ((float2*)(&__9))[1] = __half22float2(((half2*)(&v__2))[1]);
        __7.x = (__8.x*__9.x);
        __7.y = (__8.y*__9.y);
        __7.z = (__8.z*__9.z);
        __7.w = (__8.w*__9.w);
      *(float4*)(sums + (i_10 * 4)) = __7;
    }
  } else {
    #pragma unroll
    for (int i_11 = 0; i_11 < 8; ++i_11) {
      float4 __10;
      float4 __11;
      uint2 v__3 = *(uint2*)(k_rows + (i_11 * 4));
      ((float2*)(&__11))[0] = __half22float2(((half2*)(&v__3))[0]);
      ((float2*)(&__11))[1] = __half22float2(((half2*)(&v__3))[1]);
      __10.x = fabsf(__11.x);
      __10.y = fabsf(__11.y);
      __10.z = fabsf(__11.z);
      __10.w = fabsf(__11.w);
      *(float4*)(sums + (i_11 * 4)) = __10;
    }
  }
  #pragma unroll
  for (int i_12 = 0; i_12 < 4; ++i_12) {
    k_factor[i_12] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_1 = 0; rv_1 < 8; ++rv_1) {
      k_factor[i_12] = (k_factor[i_12] + sums[((i_12 * 8) + rv_1)]);
    }
    k_factor[i_12] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<256>>::run(k_factor[i_12]);
  }
  #pragma unroll
  for (int i_13 = 0; i_13 < 4; ++i_13) {
    float v__4 = q_factor[i_13] + k_factor[i_13];
    if (2139095040 <= ((*(int *)(&(v__4))) & 2147483647)) {
      bad = 1;
    }
  }
  bad = __syncthreads_or(bad);
  if (bad != 0) {
    mark = 0;
  }
  if (bad != 0) {
    if ((((int)threadIdx.x) < 64) && (((int)threadIdx.x) < count)) {
      float v__5 = ((float*)betas)[((int)threadIdx.x)];
      if (2139095040 <= ((*(int *)(&(v__5))) & 2147483647)) {
        mark = 1;
      }
    }
  }
  __syncthreads();
  if (bad != 0) {
    if ((((int)threadIdx.x) < 64) && (((int)threadIdx.x) < count)) {
      for (int j = 0; j < 128; ++j) {
        int64_t k_at = (((((int64_t)batch) * k_batch) + ((((int64_t)first) + ((int64_t)((int)threadIdx.x))) * k_token)) + (((int64_t)(head / group)) * k_head));
        int64_t q_at = (((((int64_t)batch) * q_batch) + ((((int64_t)first) + ((int64_t)((int)threadIdx.x))) * q_token)) + (((int64_t)(head / group)) * q_head));
        float v__6 = ((float*)G)[((((((int)threadIdx.x) * 128) + (((j & 7) >> 2) * 64)) + ((j >> 3) * 4)) + (j & 3))];
        float v__7 = (float)k[((k_at * (int64_t)8) + ((int64_t)j))];
        if (((2139095040 <= ((*(int *)(&(v__6))) & 2147483647)) || (0x1.ep+3f/*1.500000e+01*/ < ((float*)G)[((((((int)threadIdx.x) * 128) + (((j & 7) >> 2) * 64)) + ((j >> 3) * 4)) + (j & 3))])) || (2139095040 <= ((*(int *)(&(v__7))) & 2147483647))) {
          mark = 1;
        }
        float v__8 = (float)q[((q_at * (int64_t)8) + ((int64_t)j))];
        if ((mark == 0) && (2139095040 <= ((*(int *)(&(v__8))) & 2147483647))) {
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
      uint4 condval_17;
      if (((until <= ((i_15 * 16) + (((int)threadIdx.x) >> 4))) || (spoilt[((i_15 * 16) + (((int)threadIdx.x) >> 4))] == 2))) {
        condval_17 = make_uint4(__pack_half2(broadcast_var_2, broadcast_var_2), __pack_half2(broadcast_var_2, broadcast_var_2), __pack_half2(broadcast_var_2, broadcast_var_2), __pack_half2(broadcast_var_2, broadcast_var_2));
      } else {
        condval_17 = *(uint4*)(q_rows + (i_15 * 8));
      }
      *(uint4*)(q_rows + (i_15 * 8)) = condval_17;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_16 = 0; i_16 < 4; ++i_16) {
      half_t broadcast_var_3 = half_t(0x0p+0f/*0.000000e+00*/);
      uint4 condval_18;
      if ((until <= ((i_16 * 16) + (((int)threadIdx.x) >> 4)))) {
        condval_18 = make_uint4(__pack_half2(broadcast_var_3, broadcast_var_3), __pack_half2(broadcast_var_3, broadcast_var_3), __pack_half2(broadcast_var_3, broadcast_var_3), __pack_half2(broadcast_var_3, broadcast_var_3));
      } else {
        condval_18 = *(uint4*)(k_rows + (i_16 * 8));
      }
      *(uint4*)(k_rows + (i_16 * 8)) = condval_18;
    }
  }
  if (bad != 0) {
    #pragma unroll
    for (int i_17 = 0; i_17 < 4; ++i_17) {
      float condval_19;
      if (((until <= ((i_17 * 16) + (((int)threadIdx.x) >> 4))) || (spoilt[((i_17 * 16) + (((int)threadIdx.x) >> 4))] == 2))) {
        condval_19 = 0x0p+0f/*0.000000e+00*/;
      } else {
        condval_19 = q_factor[i_17];
      }
      q_factor[i_17] = condval_19;
      float condval_20;
      if ((until <= ((i_17 * 16) + (((int)threadIdx.x) >> 4)))) {
        condval_20 = 0x0p+0f/*0.000000e+00*/;
      } else {
        condval_20 = k_factor[i_17];
      }
      k_factor[i_17] = condval_20;
    }
  }
  if (bad != 0) {
    decay = 0x0p+0f/*0.000000e+00*/;
  }
  if (bad != 0) {
    for (int i_18 = 0; i_18 < 32; ++i_18) {
      __syncthreads();
      if ((((((int)threadIdx.x) >> 7) * 32) + i_18) < until) {
        decay = ((float*)G)[((((((((int)threadIdx.x) >> 7) * 4096) + (i_18 * 128)) + (((((int)threadIdx.x) & 7) >> 2) * 64)) + (((((int)threadIdx.x) & 127) >> 3) * 4)) + (((int)threadIdx.x) & 3))];
      }
      __syncthreads();
      ((float*)G)[((((((((int)threadIdx.x) >> 7) * 4096) + (i_18 * 128)) + (((((int)threadIdx.x) & 7) >> 2) * 64)) + (((((int)threadIdx.x) & 127) >> 3) * 4)) + (((int)threadIdx.x) & 3))] = decay;
    }
  }
  if (bad != 0) {
    if ((((int)threadIdx.x) < 64) && (until <= ((int)threadIdx.x))) {
      ((float*)betas)[((int64_t)((int)threadIdx.x))] = 0x0p+0f/*0.000000e+00*/;
    }
  }
  if (bad != 0) {
    __syncthreads();
  }
  if (((int)threadIdx.x) < 128) {
    float condval_21;
    if ((until < 64)) {
      int _reinterpret_tmp_2 = 2143289344;
      condval_21 = (*(float *)(&(_reinterpret_tmp_2)));
    } else {
      condval_21 = exp2f((((float*)G)[((((((((int)threadIdx.x) & 7) >> 2) * 64) + ((((int)threadIdx.x) >> 3) * 4)) + (((int)threadIdx.x) & 3)) + 3968)] + ((float*)G)[((((((((int)threadIdx.x) & 7) >> 2) * 64) + ((((int)threadIdx.x) >> 3) * 4)) + (((int)threadIdx.x) & 3)) + 8064)]));
    }
    vectors[((((int64_t)((int)blockIdx.x)) * (int64_t)384) + ((int64_t)((int)threadIdx.x)))] = condval_21;
  }
  #pragma unroll
  for (int i_19 = 0; i_19 < 4; ++i_19) {
    float condval_22;
    if ((l2norm != 0)) {
      condval_22 = rsqrtf((q_factor[i_19] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
    } else {
      condval_22 = 0x1p+0f/*1.000000e+00*/;
    }
    float rate_q = condval_22;
    int condval_23;
    if ((l2norm != 0)) {
      float v__9 = (q_factor[i_19] * rate_q) * rate_q;
      condval_23 = ((((*(int *)(&(v__9))) >> 23) - 127) >> 1);
    } else {
      float v__10 = q_factor[i_19];
      condval_23 = (((*(int *)(&(v__10))) >> 23) - 130);
    }
    q_exponent[i_19] = max(min(condval_23, 126), -126);
    int v__11 = (127 - q_exponent[i_19]) << 23;
    q_factor[i_19] = (rate_q * (*(float *)(&(v__11))));
  }
  #pragma unroll
  for (int i_20 = 0; i_20 < 4; ++i_20) {
    float condval_24;
    if ((l2norm != 0)) {
      condval_24 = rsqrtf((k_factor[i_20] + 0x1.0c6f7a0b5ed8dp-20f/*1.000000e-06*/));
    } else {
      condval_24 = 0x1p+0f/*1.000000e+00*/;
    }
    float rate_k = condval_24;
    int condval_25;
    if ((l2norm != 0)) {
      float v__12 = (k_factor[i_20] * rate_k) * rate_k;
      condval_25 = ((((*(int *)(&(v__12))) >> 23) - 127) >> 1);
    } else {
      float v__13 = k_factor[i_20];
      condval_25 = (((*(int *)(&(v__13))) >> 23) - 130);
    }
    k_exponent[i_20] = max(min(condval_25, 126), -126);
    int v__14 = (127 - k_exponent[i_20]) << 23;
    k_factor[i_20] = (rate_k * (*(float *)(&(v__14))));
  }
  #pragma unroll
  for (int i_21 = 0; i_21 < 8; ++i_21) {
    uint2 __12;
    float4 __13;
      float4 __14;
      uint2 v__15 = *(uint2*)(q_rows + (i_21 * 4));
      ((float2*)(&__14))[0] = __half22float2(((half2*)(&v__15))[0]);
      ((float2*)(&__14))[1] = __half22float2(((half2*)(&v__15))[1]);
      float4 v__16 = make_float4(q_factor[(i_21 >> 1)], q_factor[(i_21 >> 1)], q_factor[(i_21 >> 1)], q_factor[(i_21 >> 1)]);
      __13.x = (__14.x*v__16.x);
      __13.y = (__14.y*v__16.y);
      __13.z = (__14.z*v__16.z);
      __13.w = (__14.w*v__16.w);
    ((half2*)(&__12))[0] = __float22half2_rn(((float2*)(&__13))[0]);
    ((half2*)(&__12))[1] = __float22half2_rn(((float2*)(&__13))[1]);
    *(uint2*)(q_unit + (i_21 * 4)) = __12;
  }
  #pragma unroll
  for (int i_22 = 0; i_22 < 8; ++i_22) {
    uint2 __15;
    float4 __16;
      float4 __17;
      uint2 v__17 = *(uint2*)(k_rows + (i_22 * 4));
      ((float2*)(&__17))[0] = __half22float2(((half2*)(&v__17))[0]);
      ((float2*)(&__17))[1] = __half22float2(((half2*)(&v__17))[1]);
      float4 v__18 = make_float4(k_factor[(i_22 >> 1)], k_factor[(i_22 >> 1)], k_factor[(i_22 >> 1)], k_factor[(i_22 >> 1)]);
      __16.x = (__17.x*v__18.x);
      __16.y = (__17.y*v__18.y);
      __16.z = (__17.z*v__18.z);
      __16.w = (__17.w*v__18.w);
    ((half2*)(&__15))[0] = __float22half2_rn(((float2*)(&__16))[0]);
    ((half2*)(&__15))[1] = __float22half2_rn(((float2*)(&__16))[1]);
    *(uint2*)(k_unit + (i_22 * 4)) = __15;
  }
  #pragma unroll
  for (int i_23 = 0; i_23 < 8; ++i_23) {
    float4 __18;
      float4 __19;
      uint2 v__19 = *(uint2*)(q_unit + (i_23 * 4));
      ((float2*)(&__19))[0] = __half22float2(((half2*)(&v__19))[0]);
      ((float2*)(&__19))[1] = __half22float2(((half2*)(&v__19))[1]);
      float4 __20;
      uint2 v__20 = *(uint2*)(k_unit + (i_23 * 4));
      ((float2*)(&__20))[0] = __half22float2(((half2*)(&v__20))[0]);
      ((float2*)(&__20))[1] = __half22float2(((half2*)(&v__20))[1]);
      __18.x = (__19.x*__20.x);
      __18.y = (__19.y*__20.y);
      __18.z = (__19.z*__20.z);
      __18.w = (__19.w*__20.w);
    *(float4*)(sums + (i_23 * 4)) = __18;
  }
  #pragma unroll
  for (int i_24 = 0; i_24 < 4; ++i_24) {
    own[i_24] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_2 = 0; rv_2 < 8; ++rv_2) {
      own[i_24] = (own[i_24] + sums[((i_24 * 8) + rv_2)]);
    }
    own[i_24] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<256>>::run(own[i_24]);
  }
  if ((((int)threadIdx.x) % 16) == 0) {
    #pragma unroll
    for (int i_25 = 0; i_25 < 4; ++i_25) {
      ((float*)owns)[((i_25 * 16) + (((int)threadIdx.x) >> 4))] = own[i_25];
      int v__21 = (k_exponent[i_25] + 127) << 23;
      float weighted = (((float*)betas)[((i_25 * 16) + (((int)threadIdx.x) >> 4))] * (*(float *)(&(v__21))));
      float weighted_twice = max(min((weighted * (*(float *)(&(v__21)))), 0x1.c363cbf21f28ap+127f/*3.000000e+38*/), -0x1.c363cbf21f28ap+127f/*-3.000000e+38*/);
      ((float*)weights)[((i_25 * 16) + (((int)threadIdx.x) >> 4))] = weighted_twice;
      vectors[((((((int64_t)((int)blockIdx.x)) * (int64_t)384) + (((int64_t)i_25) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) + (int64_t)128)] = weighted;
      vectors[((((((int64_t)((int)blockIdx.x)) * (int64_t)384) + (((int64_t)i_25) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) + (int64_t)192)] = weighted_twice;
      float condval_26;
      if (((bad != 0) && ((until <= ((i_25 * 16) + (((int)threadIdx.x) >> 4))) || (spoilt[((i_25 * 16) + (((int)threadIdx.x) >> 4))] == 2)))) {
        int _reinterpret_tmp_3 = 2143289344;
        condval_26 = (*(float *)(&(_reinterpret_tmp_3)));
      } else {
        int v__22 = (q_exponent[i_25] + 127) << 23;
        condval_26 = (*(float *)(&(v__22)));
      }
      vectors[((((((int64_t)((int)blockIdx.x)) * (int64_t)384) + (((int64_t)i_25) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) + (int64_t)256)] = condval_26;
    }
  }
  if (((int)threadIdx.x) < 64) {
    vectors[(((((int64_t)((int)blockIdx.x)) * (int64_t)384) + ((int64_t)((int)threadIdx.x))) + (int64_t)320)] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int i_26 = 0; i_26 < 4; ++i_26) {
    float broadcast_var_4 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(pairs_q + (i_26 * 4)) = make_float4(broadcast_var_4, broadcast_var_4, broadcast_var_4, broadcast_var_4);
  }
  #pragma unroll
  for (int i_27 = 0; i_27 < 4; ++i_27) {
    float broadcast_var_5 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(pairs_k + (i_27 * 4)) = make_float4(broadcast_var_5, broadcast_var_5, broadcast_var_5, broadcast_var_5);
  }
  #pragma unroll
  for (int i_28 = 0; i_28 < 8; ++i_28) {
    float G_local_cast[4];
    float G_local_cast_1[4];
    *(float4*)(G_local_cast + 0) = *(float4*)(((float*)G) + (((((i_28 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_28 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_1 + 0) = *(float4*)(((float*)G) + (((((i_28 >> 1) * 2048) + ((((int)threadIdx.x) >> 5) * 256)) + ((i_28 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    uint2 __21;
    float4 __22;
    float4 __23;
      float condval_27;
      if ((((((int)threadIdx.x) & 31) >> 4) == 1)) {
        condval_27 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_27 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__23 = make_float4(condval_27, condval_27, condval_27, condval_27);
      float4 __24;
        float4 v__24 = *(float4*)(G_local_cast + 0);
        float4 v__25 = *(float4*)(G_local_cast_1 + 0);
        __24.x = (v__24.x-v__25.x);
        __24.y = (v__24.y-v__25.y);
        __24.z = (v__24.z-v__25.z);
        __24.w = (v__24.w-v__25.w);
      __23.x = (v__23.x*__24.x);
      __23.y = (v__23.y*__24.y);
      __23.z = (v__23.z*__24.z);
      __23.w = (v__23.w*__24.w);
    __22.x = exp2f(__23.x);
    __22.y = exp2f(__23.y);
    __22.z = exp2f(__23.z);
    __22.w = exp2f(__23.w);
    ((half2*)(&__21))[0] = __float22half2_rn(((float2*)(&__22))[0]);
    ((half2*)(&__21))[1] = __float22half2_rn(((float2*)(&__22))[1]);
    *(uint2*)(kept + (i_28 * 4)) = __21;
  }
  #pragma unroll
  for (int i_29 = 0; i_29 < 4; ++i_29) {
    uint4 __25;
      uint4 v__26 = *(uint4*)(q_unit + (i_29 * 8));
      uint4 v__27 = *(uint4*)(kept + (i_29 * 8));
      *(uint1*)(&(__25.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__26.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__27.x)))));
      *(uint1*)(&(__25.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__26.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__27.y)))));
      *(uint1*)(&(__25.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__26.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__27.z)))));
      *(uint1*)(&(__25.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__26.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__27.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_29 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __25;
  }
  #pragma unroll
  for (int i_30 = 0; i_30 < 4; ++i_30) {
    uint4 __26;
      uint4 v__28 = *(uint4*)(k_unit + (i_30 * 8));
      uint4 v__29 = *(uint4*)(kept + (i_30 * 8));
      *(uint1*)(&(__26.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__28.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__29.x)))));
      *(uint1*)(&(__26.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__28.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__29.y)))));
      *(uint1*)(&(__26.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__28.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__29.z)))));
      *(uint1*)(&(__26.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__28.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__29.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_30 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __26;
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
  for (int i_31 = 0; i_31 < 16; ++i_31) {
    float condval_28;
    if ((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_31 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_31 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_31 & 1))) == 1)) {
      condval_28 = of_q[i_31];
    } else {
      condval_28 = pairs_q[i_31];
    }
    pairs_q[i_31] = condval_28;
    float condval_29;
    if ((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_31 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_31 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_31 & 1))) == 1)) {
      condval_29 = of_k[i_31];
    } else {
      condval_29 = pairs_k[i_31];
    }
    pairs_k[i_31] = condval_29;
  }
  #pragma unroll
  for (int i_32 = 0; i_32 < 8; ++i_32) {
    float G_local_cast_2[4];
    float G_local_cast_3[4];
    *(float4*)(G_local_cast_2 + 0) = *(float4*)(((float*)G) + (((((i_32 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_32 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_3 + 0) = *(float4*)(((float*)G) + ((((((i_32 >> 1) * 2048) + ((((int)threadIdx.x) >> 6) * 512)) + ((i_32 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 128));
    uint2 __27;
    float4 __28;
    float4 __29;
      float condval_30;
      if ((((((int)threadIdx.x) & 63) >> 5) == 1)) {
        condval_30 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_30 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__30 = make_float4(condval_30, condval_30, condval_30, condval_30);
      float4 __30;
        float4 v__31 = *(float4*)(G_local_cast_2 + 0);
        float4 v__32 = *(float4*)(G_local_cast_3 + 0);
        __30.x = (v__31.x-v__32.x);
        __30.y = (v__31.y-v__32.y);
        __30.z = (v__31.z-v__32.z);
        __30.w = (v__31.w-v__32.w);
      __29.x = (v__30.x*__30.x);
      __29.y = (v__30.y*__30.y);
      __29.z = (v__30.z*__30.z);
      __29.w = (v__30.w*__30.w);
    __28.x = exp2f(__29.x);
    __28.y = exp2f(__29.y);
    __28.z = exp2f(__29.z);
    __28.w = exp2f(__29.w);
    ((half2*)(&__27))[0] = __float22half2_rn(((float2*)(&__28))[0]);
    ((half2*)(&__27))[1] = __float22half2_rn(((float2*)(&__28))[1]);
    *(uint2*)(kept + (i_32 * 4)) = __27;
  }
  __syncthreads();
  #pragma unroll
  for (int i_33 = 0; i_33 < 4; ++i_33) {
    uint4 __31;
      uint4 v__33 = *(uint4*)(q_unit + (i_33 * 8));
      uint4 v__34 = *(uint4*)(kept + (i_33 * 8));
      *(uint1*)(&(__31.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__33.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__34.x)))));
      *(uint1*)(&(__31.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__33.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__34.y)))));
      *(uint1*)(&(__31.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__33.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__34.z)))));
      *(uint1*)(&(__31.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__33.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__34.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_33 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __31;
  }
  #pragma unroll
  for (int i_34 = 0; i_34 < 4; ++i_34) {
    uint4 __32;
      uint4 v__35 = *(uint4*)(k_unit + (i_34 * 8));
      uint4 v__36 = *(uint4*)(kept + (i_34 * 8));
      *(uint1*)(&(__32.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__35.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__36.x)))));
      *(uint1*)(&(__32.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__35.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__36.y)))));
      *(uint1*)(&(__32.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__35.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__36.z)))));
      *(uint1*)(&(__32.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__35.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__36.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_34 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __32;
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
  for (int i_35 = 0; i_35 < 16; ++i_35) {
    float condval_31;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_35 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_35 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_35 & 1))) >> 1) == 1)) {
      condval_31 = of_q[i_35];
    } else {
      condval_31 = pairs_q[i_35];
    }
    pairs_q[i_35] = condval_31;
    float condval_32;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_35 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_35 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_35 & 1))) >> 1) == 1)) {
      condval_32 = of_k[i_35];
    } else {
      condval_32 = pairs_k[i_35];
    }
    pairs_k[i_35] = condval_32;
  }
  #pragma unroll
  for (int i_36 = 0; i_36 < 8; ++i_36) {
    float G_local_cast_4[4];
    float G_local_cast_5[4];
    *(float4*)(G_local_cast_4 + 0) = *(float4*)(((float*)G) + (((((i_36 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_36 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_5 + 0) = *(float4*)(((float*)G) + ((((((i_36 >> 1) * 2048) + ((((int)threadIdx.x) >> 7) * 1024)) + ((i_36 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 384));
    uint2 __33;
    float4 __34;
    float4 __35;
      float condval_33;
      if ((((((int)threadIdx.x) & 127) >> 6) == 1)) {
        condval_33 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_33 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__37 = make_float4(condval_33, condval_33, condval_33, condval_33);
      float4 __36;
        float4 v__38 = *(float4*)(G_local_cast_4 + 0);
        float4 v__39 = *(float4*)(G_local_cast_5 + 0);
        __36.x = (v__38.x-v__39.x);
        __36.y = (v__38.y-v__39.y);
        __36.z = (v__38.z-v__39.z);
        __36.w = (v__38.w-v__39.w);
      __35.x = (v__37.x*__36.x);
      __35.y = (v__37.y*__36.y);
      __35.z = (v__37.z*__36.z);
      __35.w = (v__37.w*__36.w);
    __34.x = exp2f(__35.x);
    __34.y = exp2f(__35.y);
    __34.z = exp2f(__35.z);
    __34.w = exp2f(__35.w);
    ((half2*)(&__33))[0] = __float22half2_rn(((float2*)(&__34))[0]);
    ((half2*)(&__33))[1] = __float22half2_rn(((float2*)(&__34))[1]);
    *(uint2*)(kept + (i_36 * 4)) = __33;
  }
  __syncthreads();
  #pragma unroll
  for (int i_37 = 0; i_37 < 4; ++i_37) {
    uint4 __37;
      uint4 v__40 = *(uint4*)(q_unit + (i_37 * 8));
      uint4 v__41 = *(uint4*)(kept + (i_37 * 8));
      *(uint1*)(&(__37.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.x)))));
      *(uint1*)(&(__37.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.y)))));
      *(uint1*)(&(__37.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.z)))));
      *(uint1*)(&(__37.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__40.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__41.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_37 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __37;
  }
  #pragma unroll
  for (int i_38 = 0; i_38 < 4; ++i_38) {
    uint4 __38;
      uint4 v__42 = *(uint4*)(k_unit + (i_38 * 8));
      uint4 v__43 = *(uint4*)(kept + (i_38 * 8));
      *(uint1*)(&(__38.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.x)))));
      *(uint1*)(&(__38.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.y)))));
      *(uint1*)(&(__38.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.z)))));
      *(uint1*)(&(__38.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__42.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__43.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_38 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __38;
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
  for (int i_39 = 0; i_39 < 16; ++i_39) {
    float condval_34;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_39 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_39 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_39 & 1))) >> 2) == 1)) {
      condval_34 = of_q[i_39];
    } else {
      condval_34 = pairs_q[i_39];
    }
    pairs_q[i_39] = condval_34;
    float condval_35;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_39 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_39 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_39 & 1))) >> 2) == 1)) {
      condval_35 = of_k[i_39];
    } else {
      condval_35 = pairs_k[i_39];
    }
    pairs_k[i_39] = condval_35;
  }
  #pragma unroll
  for (int i_40 = 0; i_40 < 8; ++i_40) {
    float G_local_cast_6[4];
    float G_local_cast_7[4];
    *(float4*)(G_local_cast_6 + 0) = *(float4*)(((float*)G) + (((((i_40 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_40 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_7 + 0) = *(float4*)(((float*)G) + (((((i_40 >> 1) * 2048) + ((i_40 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 896));
    uint2 __39;
    float4 __40;
    float4 __41;
      float condval_36;
      if (((((int)threadIdx.x) >> 7) == 1)) {
        condval_36 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_36 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__44 = make_float4(condval_36, condval_36, condval_36, condval_36);
      float4 __42;
        float4 v__45 = *(float4*)(G_local_cast_6 + 0);
        float4 v__46 = *(float4*)(G_local_cast_7 + 0);
        __42.x = (v__45.x-v__46.x);
        __42.y = (v__45.y-v__46.y);
        __42.z = (v__45.z-v__46.z);
        __42.w = (v__45.w-v__46.w);
      __41.x = (v__44.x*__42.x);
      __41.y = (v__44.y*__42.y);
      __41.z = (v__44.z*__42.z);
      __41.w = (v__44.w*__42.w);
    __40.x = exp2f(__41.x);
    __40.y = exp2f(__41.y);
    __40.z = exp2f(__41.z);
    __40.w = exp2f(__41.w);
    ((half2*)(&__39))[0] = __float22half2_rn(((float2*)(&__40))[0]);
    ((half2*)(&__39))[1] = __float22half2_rn(((float2*)(&__40))[1]);
    *(uint2*)(kept + (i_40 * 4)) = __39;
  }
  __syncthreads();
  #pragma unroll
  for (int i_41 = 0; i_41 < 4; ++i_41) {
    uint4 __43;
      uint4 v__47 = *(uint4*)(q_unit + (i_41 * 8));
      uint4 v__48 = *(uint4*)(kept + (i_41 * 8));
      *(uint1*)(&(__43.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.x)))));
      *(uint1*)(&(__43.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.y)))));
      *(uint1*)(&(__43.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.z)))));
      *(uint1*)(&(__43.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__47.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__48.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_41 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __43;
  }
  #pragma unroll
  for (int i_42 = 0; i_42 < 4; ++i_42) {
    uint4 __44;
      uint4 v__49 = *(uint4*)(k_unit + (i_42 * 8));
      uint4 v__50 = *(uint4*)(kept + (i_42 * 8));
      *(uint1*)(&(__44.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.x)))));
      *(uint1*)(&(__44.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.y)))));
      *(uint1*)(&(__44.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.z)))));
      *(uint1*)(&(__44.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__49.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__50.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_42 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __44;
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
  for (int i_43 = 0; i_43 < 16; ++i_43) {
    float condval_37;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_43 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_43 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_43 & 1))) >> 3) == 1)) {
      condval_37 = of_q[i_43];
    } else {
      condval_37 = pairs_q[i_43];
    }
    pairs_q[i_43] = condval_37;
    float condval_38;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_43 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_43 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_43 & 1))) >> 3) == 1)) {
      condval_38 = of_k[i_43];
    } else {
      condval_38 = pairs_k[i_43];
    }
    pairs_k[i_43] = condval_38;
  }
  #pragma unroll
  for (int i_44 = 0; i_44 < 8; ++i_44) {
    float G_local_cast_8[4];
    float G_local_cast_9[4];
    *(float4*)(G_local_cast_8 + 0) = *(float4*)(((float*)G) + (((((i_44 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_44 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_9 + 0) = *(float4*)(((float*)G) + (((((i_44 >> 2) * 4096) + ((i_44 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)) + 1920));
    uint2 __45;
    float4 __46;
    float4 __47;
      float condval_39;
      if ((((i_44 & 3) >> 1) == 1)) {
        condval_39 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_39 = -0x1p+0f/*-1.000000e+00*/;
      }
      float4 v__51 = make_float4(condval_39, condval_39, condval_39, condval_39);
      float4 __48;
        float4 v__52 = *(float4*)(G_local_cast_8 + 0);
        float4 v__53 = *(float4*)(G_local_cast_9 + 0);
        __48.x = (v__52.x-v__53.x);
        __48.y = (v__52.y-v__53.y);
        __48.z = (v__52.z-v__53.z);
        __48.w = (v__52.w-v__53.w);
      __47.x = (v__51.x*__48.x);
      __47.y = (v__51.y*__48.y);
      __47.z = (v__51.z*__48.z);
      __47.w = (v__51.w*__48.w);
    __46.x = exp2f(__47.x);
    __46.y = exp2f(__47.y);
    __46.z = exp2f(__47.z);
    __46.w = exp2f(__47.w);
    ((half2*)(&__45))[0] = __float22half2_rn(((float2*)(&__46))[0]);
    ((half2*)(&__45))[1] = __float22half2_rn(((float2*)(&__46))[1]);
    *(uint2*)(kept + (i_44 * 4)) = __45;
  }
  __syncthreads();
  #pragma unroll
  for (int i_45 = 0; i_45 < 4; ++i_45) {
    uint4 __49;
      uint4 v__54 = *(uint4*)(q_unit + (i_45 * 8));
      uint4 v__55 = *(uint4*)(kept + (i_45 * 8));
      *(uint1*)(&(__49.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.x)))));
      *(uint1*)(&(__49.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.y)))));
      *(uint1*)(&(__49.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.z)))));
      *(uint1*)(&(__49.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__54.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__55.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_45 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __49;
  }
  #pragma unroll
  for (int i_46 = 0; i_46 < 4; ++i_46) {
    uint4 __50;
      uint4 v__56 = *(uint4*)(k_unit + (i_46 * 8));
      uint4 v__57 = *(uint4*)(kept + (i_46 * 8));
      *(uint1*)(&(__50.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.x)))));
      *(uint1*)(&(__50.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.y)))));
      *(uint1*)(&(__50.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.z)))));
      *(uint1*)(&(__50.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__56.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__57.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_46 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __50;
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
  for (int i_47 = 0; i_47 < 16; ++i_47) {
    float condval_40;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_47 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_47 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_47 & 1))) >> 4) == 1)) {
      condval_40 = of_q[i_47];
    } else {
      condval_40 = pairs_q[i_47];
    }
    pairs_q[i_47] = condval_40;
    float condval_41;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_47 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_47 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_47 & 1))) >> 4) == 1)) {
      condval_41 = of_k[i_47];
    } else {
      condval_41 = pairs_k[i_47];
    }
    pairs_k[i_47] = condval_41;
  }
  #pragma unroll
  for (int i_48 = 0; i_48 < 8; ++i_48) {
    float G_local_cast_10[4];
    float G_local_cast_11[4];
    *(float4*)(G_local_cast_10 + 0) = *(float4*)(((float*)G) + ((((i_48 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 3968));
    *(float4*)(G_local_cast_11 + 0) = *(float4*)(((float*)G) + (((((i_48 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_48 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    uint2 __51;
    float4 __52;
    float4 condval_42;
    if ((i_48 < 4)) {
      float4 __53;
        float4 v__58 = *(float4*)(G_local_cast_10 + 0);
        float4 v__59 = *(float4*)(G_local_cast_11 + 0);
        __53.x = (v__58.x-v__59.x);
        __53.y = (v__58.y-v__59.y);
        __53.z = (v__58.z-v__59.z);
        __53.w = (v__58.w-v__59.w);
      condval_42 = __53;
    } else {
      condval_42 = *(float4*)(G_local_cast_11 + 0);
    }
    __52.x = exp2f(condval_42.x);
    __52.y = exp2f(condval_42.y);
    __52.z = exp2f(condval_42.z);
    __52.w = exp2f(condval_42.w);
    ((half2*)(&__51))[0] = __float22half2_rn(((float2*)(&__52))[0]);
    ((half2*)(&__51))[1] = __float22half2_rn(((float2*)(&__52))[1]);
    *(uint2*)(kept + (i_48 * 4)) = __51;
  }
  __syncthreads();
  #pragma unroll
  for (int i_49 = 0; i_49 < 4; ++i_49) {
    uint4 __54;
      uint4 v__60 = *(uint4*)(q_unit + (i_49 * 8));
      uint4 v__61 = *(uint4*)(kept + (i_49 * 8));
      *(uint1*)(&(__54.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__60.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__61.x)))));
      *(uint1*)(&(__54.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__60.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__61.y)))));
      *(uint1*)(&(__54.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__60.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__61.z)))));
      *(uint1*)(&(__54.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__60.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__61.w)))));
    *(uint4*)(((half_t*)rows_q) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_49 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __54;
  }
  #pragma unroll
  for (int i_50 = 0; i_50 < 4; ++i_50) {
    uint4 __55;
      uint4 v__62 = *(uint4*)(k_unit + (i_50 * 8));
      uint4 v__63 = *(uint4*)(kept + (i_50 * 8));
      *(uint1*)(&(__55.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__62.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__63.x)))));
      *(uint1*)(&(__55.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__62.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__63.y)))));
      *(uint1*)(&(__55.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__62.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__63.z)))));
      *(uint1*)(&(__55.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__62.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__63.w)))));
    *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_50 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __55;
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
  for (int i_51 = 0; i_51 < 16; ++i_51) {
    float condval_43;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_51 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_51 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_51 & 1))) >> 5) == 1)) {
      condval_43 = of_q[i_51];
    } else {
      condval_43 = pairs_q[i_51];
    }
    pairs_q[i_51] = condval_43;
    float condval_44;
    if (((((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_51 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) ^ (((((((int)threadIdx.x) >> 7) * 32) + ((i_51 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_51 & 1))) >> 5) == 1)) {
      condval_44 = of_k[i_51];
    } else {
      condval_44 = pairs_k[i_51];
    }
    pairs_k[i_51] = condval_44;
  }
  __syncthreads();
  #pragma unroll
  for (int i_52 = 0; i_52 < 16; ++i_52) {
    float condval_45;
    if (((((((((int)threadIdx.x) >> 7) * 32) + ((i_52 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_52 & 1)) < (((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_52 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)))) {
      condval_45 = pairs_q[i_52];
    } else {
      float condval_46;
      if (((((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_52 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) == (((((((int)threadIdx.x) >> 7) * 32) + ((i_52 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_52 & 1)))) {
        condval_46 = ((float*)owns)[(((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_52 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))];
      } else {
        condval_46 = 0x0p+0f/*0.000000e+00*/;
      }
      condval_45 = condval_46;
    }
    ((half_t*)M)[((((((((((((int)threadIdx.x) & 127) >> 5) * 1024) + (((i_52 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + ((((((int)threadIdx.x) >> 7) + ((((int)threadIdx.x) & 31) >> 4)) & 1) * 32)) + ((((i_52 >> 3) + ((((int)threadIdx.x) & 15) >> 3)) & 1) * 16)) + (((((i_52 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_52 & 1))] = ((half_t)condval_45);
  }
  #pragma unroll
  for (int i_53 = 0; i_53 < 16; ++i_53) {
    float condval_47;
    if (((((((((int)threadIdx.x) >> 7) * 32) + ((i_53 >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_53 & 1)) < (((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_53 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)))) {
      condval_47 = (((float*)weights)[(((((((int)threadIdx.x) & 127) >> 5) * 16) + (((i_53 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] * pairs_k[i_53]);
    } else {
      condval_47 = 0x0p+0f/*0.000000e+00*/;
    }
    pairs_k[i_53] = condval_47;
  }
  __syncthreads();
  #pragma unroll
  for (int i_54 = 0; i_54 < 2; ++i_54) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)L)[(((((((((int)threadIdx.x) & 127) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + ((((((int)threadIdx.x) >> 7) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + i_54) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)pairs_k[(i_54 * 8)]), ((half_t)pairs_k[((i_54 * 8) + 1)])), __pack_half2(((half_t)pairs_k[((i_54 * 8) + 2)]), ((half_t)pairs_k[((i_54 * 8) + 3)])), __pack_half2(((half_t)pairs_k[((i_54 * 8) + 4)]), ((half_t)pairs_k[((i_54 * 8) + 5)])), __pack_half2(((half_t)pairs_k[((i_54 * 8) + 6)]), ((half_t)pairs_k[((i_54 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_55 = 0; i_55 < 16; ++i_55) {
    if (((((int)threadIdx.x) & 127) >> 5) == (((((int)threadIdx.x) >> 7) * 2) + (i_55 >> 3))) {
      ((float*)diagonal)[((((((((((int)threadIdx.x) & 127) >> 5) * 272) + (((i_55 & 3) >> 1) * 136)) + (((((int)threadIdx.x) & 31) >> 2) * 17)) + (((i_55 & 7) >> 2) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_55 & 1))] = pairs_k[i_55];
    }
  }
  #pragma unroll
  for (int i_56 = 0; i_56 < 2; ++i_56) {
    half_t broadcast_var_6 = half_t(0x0p+0f/*0.000000e+00*/);
    *(uint4*)(((half_t*)X) + (((((i_56 * 2048) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = make_uint4(__pack_half2(broadcast_var_6, broadcast_var_6), __pack_half2(broadcast_var_6, broadcast_var_6), __pack_half2(broadcast_var_6, broadcast_var_6), __pack_half2(broadcast_var_6, broadcast_var_6));
    half_t broadcast_var_7 = half_t(0x0p+0f/*0.000000e+00*/);
    *(uint4*)(((half_t*)Xt) + (((((i_56 * 2048) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = make_uint4(__pack_half2(broadcast_var_7, broadcast_var_7), __pack_half2(broadcast_var_7, broadcast_var_7), __pack_half2(broadcast_var_7, broadcast_var_7), __pack_half2(broadcast_var_7, broadcast_var_7));
  }
  #pragma unroll
  for (int i_57 = 0; i_57 < 8; ++i_57) {
    float G_local_cast_12[4];
    float G_local_cast_13[4];
    *(float4*)(G_local_cast_12 + 0) = *(float4*)(((float*)G) + (((((i_57 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_57 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_13 + 0) = *(float4*)(((float*)G) + ((((i_57 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 3968));
    float broadcast_var_8 = 0x0p+0f/*0.000000e+00*/;
    uint2 __56;
    float4 __57;
    float4 __58;
      float4 v__64 = *(float4*)(G_local_cast_12 + 0);
      float4 condval_48;
      if ((i_57 < 4)) {
        condval_48 = make_float4(broadcast_var_8, broadcast_var_8, broadcast_var_8, broadcast_var_8);
      } else {
        condval_48 = *(float4*)(G_local_cast_13 + 0);
      }
      __58.x = (v__64.x+condval_48.x);
      __58.y = (v__64.y+condval_48.y);
      __58.z = (v__64.z+condval_48.z);
      __58.w = (v__64.w+condval_48.w);
    __57.x = exp2f(__58.x);
    __57.y = exp2f(__58.y);
    __57.z = exp2f(__58.z);
    __57.w = exp2f(__58.w);
    ((half2*)(&__56))[0] = __float22half2_rn(((float2*)(&__57))[0]);
    ((half2*)(&__56))[1] = __float22half2_rn(((float2*)(&__57))[1]);
    *(uint2*)(kept + (i_57 * 4)) = __56;
  }
  #pragma unroll
  for (int i_58 = 0; i_58 < 4; ++i_58) {
    uint4 __59;
      uint4 v__65 = *(uint4*)(k_unit + (i_58 * 8));
      uint4 v__66 = *(uint4*)(kept + (i_58 * 8));
      *(uint1*)(&(__59.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__65.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__66.x)))));
      *(uint1*)(&(__59.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__65.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__66.y)))));
      *(uint1*)(&(__59.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__65.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__66.z)))));
      *(uint1*)(&(__59.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__65.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__66.w)))));
    *(uint4*)(operators + (((((int64_t)((int)blockIdx.x)) * (int64_t)24576) + (((int64_t)i_58) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))) = __59;
  }
  #pragma unroll
  for (int i_59 = 0; i_59 < 4; ++i_59) {
    uint4 __60;
      uint4 v__67 = *(uint4*)(q_unit + (i_59 * 8));
      uint4 v__68 = *(uint4*)(kept + (i_59 * 8));
      *(uint1*)(&(__60.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__67.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__68.x)))));
      *(uint1*)(&(__60.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__67.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__68.y)))));
      *(uint1*)(&(__60.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__67.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__68.z)))));
      *(uint1*)(&(__60.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__67.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__68.w)))));
    *(uint4*)(operators + ((((((int64_t)((int)blockIdx.x)) * (int64_t)24576) + (((int64_t)i_59) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)8192)) = __60;
  }
  #pragma unroll
  for (int i_60 = 0; i_60 < 8; ++i_60) {
    float G_local_cast_14[4];
    float G_local_cast_15[4];
    float G_local_cast_16[4];
    *(float4*)(G_local_cast_14 + 0) = *(float4*)(((float*)G) + ((((i_60 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 8064));
    *(float4*)(G_local_cast_15 + 0) = *(float4*)(((float*)G) + (((((i_60 >> 1) * 2048) + ((((int)threadIdx.x) >> 4) * 128)) + ((i_60 & 1) * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(G_local_cast_16 + 0) = *(float4*)(((float*)G) + ((((i_60 & 1) * 64) + ((((int)threadIdx.x) & 15) * 4)) + 3968));
    float broadcast_var_9 = 0x0p+0f/*0.000000e+00*/;
    uint2 __61;
    float4 __62;
    float4 __63;
      float4 __64;
        float4 v__69 = *(float4*)(G_local_cast_14 + 0);
        float4 v__70 = *(float4*)(G_local_cast_15 + 0);
        __64.x = (v__69.x-v__70.x);
        __64.y = (v__69.y-v__70.y);
        __64.z = (v__69.z-v__70.z);
        __64.w = (v__69.w-v__70.w);
      float4 condval_49;
      if ((i_60 < 4)) {
        condval_49 = *(float4*)(G_local_cast_16 + 0);
      } else {
        condval_49 = make_float4(broadcast_var_9, broadcast_var_9, broadcast_var_9, broadcast_var_9);
      }
      __63.x = (__64.x+condval_49.x);
      __63.y = (__64.y+condval_49.y);
      __63.z = (__64.z+condval_49.z);
      __63.w = (__64.w+condval_49.w);
    __62.x = exp2f(__63.x);
    __62.y = exp2f(__63.y);
    __62.z = exp2f(__63.z);
    __62.w = exp2f(__63.w);
    ((half2*)(&__61))[0] = __float22half2_rn(((float2*)(&__62))[0]);
    ((half2*)(&__61))[1] = __float22half2_rn(((float2*)(&__62))[1]);
    *(uint2*)(kept + (i_60 * 4)) = __61;
  }
  __syncthreads();
  #pragma unroll
  for (int i_61 = 0; i_61 < 4; ++i_61) {
    uint4 __65;
      uint4 v__71 = *(uint4*)(k_unit + (i_61 * 8));
      uint4 v__72 = *(uint4*)(kept + (i_61 * 8));
      *(uint1*)(&(__65.x)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__71.x))), tl::from_uint1<__half2>(*(uint1*)(&(v__72.x)))));
      *(uint1*)(&(__65.y)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__71.y))), tl::from_uint1<__half2>(*(uint1*)(&(v__72.y)))));
      *(uint1*)(&(__65.z)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__71.z))), tl::from_uint1<__half2>(*(uint1*)(&(v__72.z)))));
      *(uint1*)(&(__65.w)) = tl::to_uint1(tl::mul2(tl::from_uint1<__half2>(*(uint1*)(&(v__71.w))), tl::from_uint1<__half2>(*(uint1*)(&(v__72.w)))));
    *(uint4*)(((half_t*)remaining) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_61 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))) = __65;
  }
  if (((int)threadIdx.x) < 64) {
    #pragma unroll
    for (int i_62 = 0; i_62 < 16; ++i_62) {
      float condval_50;
      if (((((int)threadIdx.x) & 15) == i_62)) {
        condval_50 = 0x1p+0f/*1.000000e+00*/;
      } else {
        condval_50 = 0x0p+0f/*0.000000e+00*/;
      }
      solution[i_62] = condval_50;
      #pragma unroll
      for (int j_1 = 0; j_1 < 16; ++j_1) {
        if (j_1 < i_62) {
          solution[i_62] = (solution[i_62] - (((float*)diagonal)[((((((int)threadIdx.x) >> 4) * 272) + (i_62 * 17)) + j_1)] * solution[j_1]));
        }
      }
      ((half_t*)X)[(((((((((int)threadIdx.x) >> 4) * 1024) + (i_62 * 64)) + ((((((int)threadIdx.x) >> 5) + ((i_62 & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((i_62 & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (i_62 & 1)) & 1) * 8)) + (((int)threadIdx.x) & 7))] = ((half_t)solution[i_62]);
      ((half_t*)Xt)[(((((((int)threadIdx.x) * 64) + ((((((int)threadIdx.x) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + ((((i_62 >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + (i_62 & 7))] = ((half_t)solution[i_62]);
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
  for (int i_63 = 0; i_63 < 16; ++i_63) {
    float condval_51;
    if (((((((int)threadIdx.x) & 127) >> 5) == ((((((int)threadIdx.x) >> 7) * 2) + (i_63 >> 3)) + 1)) && ((i_63 >> 3) == 0))) {
      condval_51 = of_k[i_63];
    } else {
      condval_51 = 0x0p+0f/*0.000000e+00*/;
    }
    ((half_t*)Pt)[(((((((((((int)threadIdx.x) >> 7) * 2048) + ((i_63 >> 2) * 512)) + ((((int)threadIdx.x) & 3) * 128)) + ((i_63 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_63 & 3) >> 1) + (i_63 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)condval_51);
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
  for (int i_64 = 0; i_64 < 16; ++i_64) {
    if ((((((int)threadIdx.x) & 127) >> 5) == ((((((int)threadIdx.x) >> 7) * 2) + (i_64 >> 3)) + 1)) && ((i_64 >> 3) == 0)) {
      ((half_t*)X)[((((((((((((int)threadIdx.x) & 127) >> 5) * 1024) + (((i_64 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + ((((((int)threadIdx.x) >> 7) + ((((int)threadIdx.x) & 31) >> 4)) & 1) * 32)) + (((((int)threadIdx.x) & 15) >> 3) * 16)) + (((((i_64 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_64 & 1))] = ((half_t)(of_k[i_64] * -0x1p+0f/*-1.000000e+00*/));
      ((half_t*)Xt)[(((((((((((int)threadIdx.x) >> 7) * 2048) + ((i_64 >> 2) * 512)) + ((((int)threadIdx.x) & 3) * 128)) + ((i_64 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_64 & 3) >> 1) + (i_64 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)(of_k[i_64] * -0x1p+0f/*-1.000000e+00*/));
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
  for (int i_65 = 0; i_65 < 16; ++i_65) {
    float condval_52;
    if (((((((int)threadIdx.x) & 127) >> 6) == ((((int)threadIdx.x) >> 7) + 1)) && ((((int)threadIdx.x) >> 7) == 0))) {
      condval_52 = of_k[i_65];
    } else {
      condval_52 = 0x0p+0f/*0.000000e+00*/;
    }
    ((half_t*)Pt)[(((((((((((int)threadIdx.x) >> 7) * 2048) + ((i_65 >> 2) * 512)) + ((((int)threadIdx.x) & 3) * 128)) + ((i_65 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_65 & 3) >> 1) + (i_65 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)condval_52);
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
    for (int i_66 = 0; i_66 < 16; ++i_66) {
      ((half_t*)X)[((((((((((((int)threadIdx.x) & 127) >> 5) * 1024) + (((i_66 & 3) >> 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + (((((int)threadIdx.x) & 31) >> 4) * 32)) + ((((i_66 >> 3) + ((((int)threadIdx.x) & 15) >> 3)) & 1) * 16)) + (((((i_66 & 7) >> 2) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) + (i_66 & 1))] = ((half_t)(of_k[i_66] * -0x1p+0f/*-1.000000e+00*/));
      ((half_t*)Xt)[((((((((i_66 >> 2) * 512) + ((((int)threadIdx.x) & 3) * 128)) + ((i_66 & 1) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 16)) + (((((i_66 & 3) >> 1) + (i_66 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = ((half_t)(of_k[i_66] * -0x1p+0f/*-1.000000e+00*/));
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
  __syncthreads();
  #pragma unroll
  for (int i_67 = 0; i_67 < 2; ++i_67) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)B)[(((((((((int)threadIdx.x) & 127) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + ((((int)threadIdx.x) >> 7) * 32)) + (i_67 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), __pack_half2(((half_t)of_q[(i_67 * 8)]), ((half_t)of_q[((i_67 * 8) + 1)])), __pack_half2(((half_t)of_q[((i_67 * 8) + 2)]), ((half_t)of_q[((i_67 * 8) + 3)])), __pack_half2(((half_t)of_q[((i_67 * 8) + 4)]), ((half_t)of_q[((i_67 * 8) + 5)])), __pack_half2(((half_t)of_q[((i_67 * 8) + 6)]), ((half_t)of_q[((i_67 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_68 = 0; i_68 < 4; ++i_68) {
    tl::ptx_stmatrix_m8n8_x4((&(((half_t*)rows_k)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_68 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_68 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Kr[(i_68 * 8)]), ((half_t)Kr[((i_68 * 8) + 1)])), __pack_half2(((half_t)Kr[((i_68 * 8) + 2)]), ((half_t)Kr[((i_68 * 8) + 3)])), __pack_half2(((half_t)Kr[((i_68 * 8) + 4)]), ((half_t)Kr[((i_68 * 8) + 5)])), __pack_half2(((half_t)Kr[((i_68 * 8) + 6)]), ((half_t)Kr[((i_68 * 8) + 7)])));
  }
  __syncthreads();
  #pragma unroll
  for (int i_69 = 0; i_69 < 2; ++i_69) {
    *(uint4*)(triangles + (((((int64_t)((int)blockIdx.x)) * (int64_t)4096) + (((int64_t)i_69) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))) = *(uint4*)(((half_t*)B) + ((i_69 * 2048) + (((int)threadIdx.x) * 8)));
  }
  #pragma unroll
  for (int i_70 = 0; i_70 < 4; ++i_70) {
    *(uint4*)(operators + ((((((int64_t)((int)blockIdx.x)) * (int64_t)24576) + (((int64_t)i_70) * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)) = *(uint4*)(((half_t*)rows_k) + ((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_70 * 1024)) + ((((int)threadIdx.x) >> 4) * 64)) + (((((((int)threadIdx.x) & 127) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)));
  }
}

cudaError_t kda_prepare_k128_f16_varlen(const KdaPrepare& arguments, cudaStream_t stream) {
  static Prepared prepared{0};
  return launch(kda_prepare_k128_f16_varlen_kernel, prepared, dim3(static_cast<unsigned>(arguments.places * arguments.HV)), dim3(256, 1, 1),
                88064, stream,
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
