// Made by tools/tilelang_aot with tilelang 0.1.15 from kda_state.py; not to be edited.

#include "backends/tilelang/generated/instances.h"

#include <tl_templates/cuda/instruction/wgmma.h>
#include <tl_templates/cuda/intrin.h>
#include <tl_templates/cuda/barrier.h>
#include <tl_templates/cuda/copy.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>

#include "backends/tilelang/launch.cuh"
#include "backends/tilelang/magnitudes.cuh"

namespace fla::tilelang::generated {

static __global__ void __launch_bounds__(128, 1) kda_state_k256_bf16_varlen_kernel(const int* __restrict__ cu_seqlens, float* final_state, const float* initial_state, bfloat16_t* __restrict__ o, const half_t* __restrict__ operators, const int* __restrict__ read_slots, const half_t* __restrict__ triangles, const bfloat16_t* __restrict__ v, const float* __restrict__ vectors, const int* __restrict__ write_slots, int HV, int N, int V, int64_t cu_seqlens_stride, int cu_seqlens_wide, int64_t final_head, int64_t final_key, int64_t final_slot, int64_t final_value, int has_final, int has_initial, int has_read_slots, int has_write_slots, int64_t initial_head, int64_t initial_key, int64_t initial_slot, int64_t initial_value, int64_t o_batch, int64_t o_head, int64_t o_token, int pool, int64_t read_slots_stride, int read_slots_wide, float scale, int tokens, int64_t v_batch, int64_t v_head, int64_t v_token, int64_t write_slots_stride, int write_slots_wide) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* Kt = ((void*)((char*)buf_dyn_shmem + 0));
  void* Qt = ((void*)((char*)buf_dyn_shmem + 32768));
  void* Kr = ((void*)((char*)buf_dyn_shmem + 65536));
  void* B = ((void*)((char*)buf_dyn_shmem + 98304));
  void* numbers = ((void*)((char*)buf_dyn_shmem + 106496));
  void* S16 = ((void*)((char*)buf_dyn_shmem + 108544));
  void* O16 = ((void*)((char*)buf_dyn_shmem + 141312));
  void* Y16 = ((void*)((char*)buf_dyn_shmem + 149504));
  void* spoilt = ((void*)((char*)buf_dyn_shmem + 157696));
  int column = 0;
  int n = 0;
  int head = 0;
  int begin = 0;
  int end = 0;
  int batch = 0;
  int place = 0;
  int read_slot = 0;
  int write_slot = 0;
  int exponent = 0;
  float S[128];
  float state_largest = 0x0p+0f/*0.000000e+00*/;
  float odd_largest = 0x0p+0f/*0.000000e+00*/;
  bfloat16_t values[32];
  float value_largest = 0x0p+0f/*0.000000e+00*/;
  int chosen = 0;
  int rare = 0;
  int first = 0;
  float Y[32];
  float O[32];
  column = (((int)blockIdx.x) % (V >> 6));
  n = (((int)blockIdx.x) / (V >> 6));
  head = (n % HV);
  n = (n / HV);
  int condval;
  if ((cu_seqlens_wide != 0)) {
    int condval_1;
    if (((cu_seqlens[(((((int64_t)n) * cu_seqlens_stride) * (int64_t)2) + (int64_t)1)] == 0) && (0 <= cu_seqlens[((((int64_t)n) * cu_seqlens_stride) * (int64_t)2)]))) {
      condval_1 = cu_seqlens[((((int64_t)n) * cu_seqlens_stride) * (int64_t)2)];
    } else {
      int condval_2;
      if ((cu_seqlens[(((((int64_t)n) * cu_seqlens_stride) * (int64_t)2) + (int64_t)1)] < 0)) {
        condval_2 = -1;
      } else {
        condval_2 = 2147483647;
      }
      condval_1 = condval_2;
    }
    condval = condval_1;
  } else {
    condval = cu_seqlens[(((int64_t)n) * cu_seqlens_stride)];
  }
  begin = max(min(condval, tokens), 0);
  int condval_3;
  if ((cu_seqlens_wide != 0)) {
    int condval_4;
    if (((cu_seqlens[((((((int64_t)n) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride) + (int64_t)1)] == 0) && (0 <= cu_seqlens[(((((int64_t)n) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride)]))) {
      condval_4 = cu_seqlens[(((((int64_t)n) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride)];
    } else {
      int condval_5;
      if ((cu_seqlens[((((((int64_t)n) * (int64_t)2) + (int64_t)2) * cu_seqlens_stride) + (int64_t)1)] < 0)) {
        condval_5 = -1;
      } else {
        condval_5 = 2147483647;
      }
      condval_4 = condval_5;
    }
    condval_3 = condval_4;
  } else {
    condval_3 = cu_seqlens[((((int64_t)n) + (int64_t)1) * cu_seqlens_stride)];
  }
  end = max(max(min(condval_3, tokens), begin), 0);
  batch = 0;
  place = ((begin >> 6) + n);
  read_slot = n;
  if (has_read_slots != 0) {
    int condval_6;
    if ((read_slots_wide != 0)) {
      int condval_7;
      if (((read_slots[(((((int64_t)n) * read_slots_stride) * (int64_t)2) + (int64_t)1)] == 0) && (0 <= read_slots[((((int64_t)n) * read_slots_stride) * (int64_t)2)]))) {
        condval_7 = read_slots[((((int64_t)n) * read_slots_stride) * (int64_t)2)];
      } else {
        int condval_8;
        if ((read_slots[(((((int64_t)n) * read_slots_stride) * (int64_t)2) + (int64_t)1)] < 0)) {
          condval_8 = -1;
        } else {
          condval_8 = 2147483647;
        }
        condval_7 = condval_8;
      }
      condval_6 = condval_7;
    } else {
      condval_6 = read_slots[(((int64_t)n) * read_slots_stride)];
    }
    read_slot = condval_6;
    if (pool <= read_slot) {
      read_slot = -1;
    }
  }
  write_slot = read_slot;
  if (has_write_slots != 0) {
    int condval_9;
    if ((write_slots_wide != 0)) {
      int condval_10;
      if (((write_slots[(((((int64_t)n) * write_slots_stride) * (int64_t)2) + (int64_t)1)] == 0) && (0 <= write_slots[((((int64_t)n) * write_slots_stride) * (int64_t)2)]))) {
        condval_10 = write_slots[((((int64_t)n) * write_slots_stride) * (int64_t)2)];
      } else {
        int condval_11;
        if ((write_slots[(((((int64_t)n) * write_slots_stride) * (int64_t)2) + (int64_t)1)] < 0)) {
          condval_11 = -1;
        } else {
          condval_11 = 2147483647;
        }
        condval_10 = condval_11;
      }
      condval_9 = condval_10;
    } else {
      condval_9 = write_slots[(((int64_t)n) * write_slots_stride)];
    }
    write_slot = condval_9;
    if (pool <= write_slot) {
      write_slot = -1;
    }
  }
  int chunks = (((end + 63) - begin) >> 6);
  exponent = 0;
  #pragma unroll
  for (int i = 0; i < 32; ++i) {
    float broadcast_var = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(S + (i * 4)) = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
  }
  if ((has_initial != 0) && (0 <= read_slot)) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 128; ++i_1) {
      S[i_1] = initial_state[((((((int64_t)read_slot) * initial_slot) + (((int64_t)head) * initial_head)) + ((((((((int64_t)i_1) >> (int64_t)5) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + (((((int64_t)i_1) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * initial_key)) + (((((((int64_t)column) * (int64_t)64) + (((((int64_t)i_1) & (int64_t)31) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_1) & (int64_t)1)) * initial_value))];
    }
  }
  state_largest = 0x0p+0f/*0.000000e+00*/;
  odd_largest = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int i_2 = 0; i_2 < 128; ++i_2) {
    if ((i_2 % 2) == 0) {
      state_largest = max(state_largest, fabsf(S[i_2]));
    } else {
      odd_largest = max(odd_largest, fabsf(S[i_2]));
    }
  }
  if (0 < chunks) {
    #pragma unroll
    for (int i_3 = 0; i_3 < 16; ++i_3) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_3 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_3 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)49152) + (((int64_t)head) * (int64_t)49152)) + (((int64_t)i_3) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_4 = 0; i_4 < 16; ++i_4) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_4 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_4 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)49152) + (((int64_t)head) * (int64_t)49152)) + (((int64_t)i_4) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_5 = 0; i_5 < 16; ++i_5) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_5 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_5 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)49152) + (((int64_t)head) * (int64_t)49152)) + (((int64_t)i_5) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)32768)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_6 = 0; i_6 < 4; ++i_6) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((i_6 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(triangles[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)4096) + (((int64_t)head) * (int64_t)4096)) + (((int64_t)i_6) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    tl::cp_async_gs<16>((&(((float*)numbers)[(((int)threadIdx.x) * 4)])), (&(vectors[((((((int64_t)place) * ((int64_t)HV)) * (int64_t)512) + (((int64_t)head) * (int64_t)512)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4))])));
    tl::cp_async_commit();
    #pragma unroll
    for (int i_7 = 0; i_7 < 16; ++i_7) {
      *(uint1*)(values + (i_7 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_7) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min((((((((int)threadIdx.x) >> 5) * 16) + ((i_7 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
    }
  }
  for (int c = 0; c < chunks; ++c) {
    int after = (((min((c + 1), (chunks - 1)) + place) * HV) + head);
    tl::cp_async_wait<0>();
    __syncthreads();
    value_largest = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int i_8 = 0; i_8 < 32; ++i_8) {
      value_largest = fla::tilelang::larger(value_largest, (((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + (((i_8 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 256)] * ((float)values[i_8])));
    }
    chosen = fla::tilelang::largest_exponent(max(state_largest, odd_largest), value_largest, exponent);
    int condval_12;
    if ((chosen == 100000)) {
      condval_12 = 1;
    } else {
      condval_12 = 0;
    }
    rare = condval_12;
    if (rare != 0) {
      if (((int)threadIdx.x) < 64) {
        first = 64;
      }
    }
    if (rare != 0) {
      if (((int)threadIdx.x) < 64) {
        for (int i_9 = 0; i_9 < 64; ++i_9) {
          if (((((c * 64) + begin) + i_9) < end) && (first == 64)) {
            float v_ = ((float*)numbers)[(i_9 + 256)] * ((float)v[(((((((int64_t)column) * (int64_t)64) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + (((((((int64_t)c) * (int64_t)64) + ((int64_t)begin)) + ((int64_t)i_9)) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((int64_t)((int)threadIdx.x)))]);
            if (2139095040 <= ((*(int *)(&(v_))) & 2147483647)) {
              first = i_9;
            }
          }
        }
      }
    }
    if (rare != 0) {
      if (((int)threadIdx.x) < 64) {
        ((int*)spoilt)[((int)threadIdx.x)] = first;
      }
    }
    if (rare != 0) {
      __syncthreads();
    }
    if (rare != 0) {
      state_largest = 0x0p+0f/*0.000000e+00*/;
    }
    if (rare != 0) {
      value_largest = 0x0p+0f/*0.000000e+00*/;
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_10 = 0; i_10 < 128; ++i_10) {
        float v__1 = S[i_10];
        float condval_13;
        if ((((*(int *)(&(v__1))) & 2147483647) < 2139095040)) {
          condval_13 = fabsf(S[i_10]);
        } else {
          condval_13 = 0x0p+0f/*0.000000e+00*/;
        }
        state_largest = max(state_largest, condval_13);
      }
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_11 = 0; i_11 < 32; ++i_11) {
        float weighted = (((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + (((i_11 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 256)] * ((float)values[i_11]));
        float _reinterpret_tmp = weighted;
        bfloat16_t condval_14;
        if ((((*(int *)(&(_reinterpret_tmp))) & 2147483647) < 2139095040)) {
          condval_14 = values[i_11];
        } else {
          condval_14 = bfloat16_t(0x0p+0f/*0.000000e+00*/);
        }
        values[i_11] = condval_14;
        float _reinterpret_tmp_1 = weighted;
        float condval_15;
        if ((((*(int *)(&(_reinterpret_tmp_1))) & 2147483647) < 2139095040)) {
          condval_15 = fabsf(weighted);
        } else {
          condval_15 = 0x0p+0f/*0.000000e+00*/;
        }
        value_largest = max(value_largest, condval_15);
      }
    }
    if (rare != 0) {
      chosen = fla::tilelang::largest_exponent(state_largest, value_largest, exponent);
    }
    bool if_condition = ((-100000 < chosen) && (((chosen - exponent) < -3) || (7 < (chosen - exponent))));
    if (if_condition) {
      chosen = min(max((chosen - 2), -122), 126);
      if (chosen != exponent) {
        #pragma unroll
        for (int i_12 = 0; i_12 < 32; ++i_12) {
          float4 __1;
            float4 v__2 = *(float4*)(S + (i_12 * 4));
            int v__3 = (max(min((exponent - chosen), 126), -126) + 127) << 23;
            float4 v__4 = make_float4((*(float *)(&(v__3))), (*(float *)(&(v__3))), (*(float *)(&(v__3))), (*(float *)(&(v__3))));
            __1.x = (v__2.x*v__4.x);
            __1.y = (v__2.y*v__4.y);
            __1.z = (v__2.z*v__4.z);
            __1.w = (v__2.w*v__4.w);
          *(float4*)(S + (i_12 * 4)) = __1;
        }
      }
      exponent = chosen;
    }
    __syncthreads();
    #pragma unroll
    for (int i_13 = 0; i_13 < 16; ++i_13) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)S16)[(((((((i_13 >> 2) * 4096) + ((((int)threadIdx.x) >> 5) * 1024)) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + ((i_13 & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_13 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)S[(i_13 * 8)]), ((half_t)S[((i_13 * 8) + 1)])), __pack_half2(((half_t)S[((i_13 * 8) + 2)]), ((half_t)S[((i_13 * 8) + 3)])), __pack_half2(((half_t)S[((i_13 * 8) + 4)]), ((half_t)S[((i_13 * 8) + 5)])), __pack_half2(((half_t)S[((i_13 * 8) + 6)]), ((half_t)S[((i_13 * 8) + 7)])));
    }
    __syncthreads();
    #pragma unroll
    for (int i_14 = 0; i_14 < 64; ++i_14) {
      float2 __2;
        float2 v__5 = *(float2*)(S + (i_14 * 2));
        float2 v__6 = make_float2(((float*)numbers)[(((((i_14 >> 4) * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_14 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))], ((float*)numbers)[(((((i_14 >> 4) * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_14 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))]);
        __2.x = (v__5.x*v__6.x);
        __2.y = (v__5.y*v__6.y);
      *(float2*)(S + (i_14 * 2)) = __2;
    }
    {
      tl::GmmaDescriptor desc_a;
      tl::GmmaDescriptor desc_b;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a, (&(((half_t*)Kt)[0])));
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b, (&(((half_t*)S16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(Y + 0), 32);
      tl::warpgroup_arrive();
      tl::fence_proxy_async();
      #pragma unroll
      for (int ki = 0; ki < 16; ++ki) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a + ((((ki >> 2) * 8192) + ((ki & 3) * 32)) >> 4)), uint64_t(desc_b + ((ki * 2048) >> 4)), ((uint32_t*)(Y + 0)), ((0 < ki) ? 1 : 0));
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(Y + 0), 32);
    }
    {
      tl::GmmaDescriptor desc_a_1;
      tl::GmmaDescriptor desc_b_1;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_1, (&(((half_t*)Qt)[0])));
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_1, (&(((half_t*)S16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
      tl::warpgroup_arrive();
      #pragma unroll
      for (int ki_1 = 0; ki_1 < 16; ++ki_1) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a_1 + ((((ki_1 >> 2) * 8192) + ((ki_1 & 3) * 32)) >> 4)), uint64_t(desc_b_1 + ((ki_1 * 2048) >> 4)), ((uint32_t*)(O + 0)), ((0 < ki_1) ? 1 : 0));
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
    }
    tl::wait_wgmma<0>();
    __syncthreads();
    #pragma unroll
    for (int i_15 = 0; i_15 < 16; ++i_15) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_15 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_15 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[(((((int64_t)after) * (int64_t)49152) + (((int64_t)i_15) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_16 = 0; i_16 < 16; ++i_16) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_16 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_16 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((int64_t)after) * (int64_t)49152) + (((int64_t)i_16) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)])));
    }
    tl::cp_async_commit();
    __syncthreads();
    #pragma unroll
    for (int i_17 = 0; i_17 < 16; ++i_17) {
      float numbers_local_cast[2];
      float numbers_local_cast_1[2];
      *(float2*)(numbers_local_cast + 0) = make_float2(((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + ((i_17 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 256)], ((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + ((i_17 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 256)]);
      *(float2*)(numbers_local_cast_1 + 0) = make_float2(((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + ((i_17 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 320)], ((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + ((i_17 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 320)]);
      float2 __3;
        float2 __4;
          float2 __5;
            float2 v__7 = *(float2*)(numbers_local_cast + 0);
            float2 __6;
            uint1 v__8 = *(uint1*)(values + (i_17 * 2));
            ((float2*)(&__6))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__8))[0]);
            __5.x = (v__7.x*__6.x);
            __5.y = (v__7.y*__6.y);
          int v__9 = (127 - exponent) << 23;
          float2 v__10 = make_float2((*(float *)(&(v__9))), (*(float *)(&(v__9))));
          __4.x = (__5.x*v__10.x);
          __4.y = (__5.y*v__10.y);
        float2 __7;
          float2 v__11 = *(float2*)(numbers_local_cast_1 + 0);
          float2 v__12 = *(float2*)(Y + (i_17 * 2));
          __7.x = (v__11.x*v__12.x);
          __7.y = (v__11.y*v__12.y);
        __3.x = (__4.x-__7.x);
        __3.y = (__4.y-__7.y);
      *(float2*)(Y + (i_17 * 2)) = __3;
    }
    __syncthreads();
    #pragma unroll
    for (int i_18 = 0; i_18 < 4; ++i_18) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)Y16)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_18 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_18 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Y[(i_18 * 8)]), ((half_t)Y[((i_18 * 8) + 1)])), __pack_half2(((half_t)Y[((i_18 * 8) + 2)]), ((half_t)Y[((i_18 * 8) + 3)])), __pack_half2(((half_t)Y[((i_18 * 8) + 4)]), ((half_t)Y[((i_18 * 8) + 5)])), __pack_half2(((half_t)Y[((i_18 * 8) + 6)]), ((half_t)Y[((i_18 * 8) + 7)])));
    }
    #pragma unroll
    for (int i_19 = 0; i_19 < 16; ++i_19) {
      *(uint1*)(values + (i_19 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_19) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min(((((((c * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_19 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin) + 64), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
    }
    {
      tl::GmmaDescriptor desc_a_2;
      tl::GmmaDescriptor desc_b_2;
      tl::initialize_wgmma_descriptor<1, 512, 64>(desc_a_2, (&(((half_t*)Kr)[0])));
      __syncthreads();
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_2, (&(((half_t*)Y16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 128);
      tl::warpgroup_arrive();
      tl::fence_proxy_async();
      #pragma unroll
      for (int i_20 = 0; i_20 < 4; ++i_20) {
        #pragma unroll
        for (int ki_2 = 0; ki_2 < 4; ++ki_2) {
          tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, true, true, 1, 1>(uint64_t(desc_a_2 + (((i_20 * 8192) + (ki_2 * 2048)) >> 4)), uint64_t(desc_b_2 + ((ki_2 * 2048) >> 4)), ((uint32_t*)(S + (i_20 * 32))), 1);
        }
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 128);
    }
    {
      tl::GmmaDescriptor desc_a_3;
      tl::GmmaDescriptor desc_b_3;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_3, (&(((half_t*)B)[0])));
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_3, (&(((half_t*)Y16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
      tl::warpgroup_arrive();
      #pragma unroll
      for (int ki_3 = 0; ki_3 < 4; ++ki_3) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a_3 + ((ki_3 * 32) >> 4)), uint64_t(desc_b_3 + ((ki_3 * 2048) >> 4)), ((uint32_t*)(O + 0)), 1);
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
    }
    tl::wait_wgmma<0>();
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 128);
    #pragma unroll
    for (int i_21 = 0; i_21 < 16; ++i_21) {
      float broadcast_var_1 = 0x0p+0f/*0.000000e+00*/;
      float2 condval_16;
      if ((0 <= read_slot)) {
        float2 __8;
          int v__13 = (exponent + 127) << 23;
          float2 v__14 = make_float2(((((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + ((i_21 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 384)] * scale) * (*(float *)(&(v__13)))), ((((float*)numbers)[(((((((int)threadIdx.x) >> 5) * 16) + ((i_21 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 384)] * scale) * (*(float *)(&(v__13)))));
          float2 v__15 = *(float2*)(O + (i_21 * 2));
          __8.x = (v__14.x*v__15.x);
          __8.y = (v__14.y*v__15.y);
        condval_16 = __8;
      } else {
        condval_16 = make_float2(broadcast_var_1, broadcast_var_1);
      }
      *(float2*)(O + (i_21 * 2)) = condval_16;
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_22 = 0; i_22 < 32; ++i_22) {
        float condval_17;
        if (((0 <= read_slot) && (((int*)spoilt)[((((i_22 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_22 & 1))] <= ((((((int)threadIdx.x) >> 5) * 16) + (((i_22 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))))) {
          int _reinterpret_tmp_2 = 2143289344;
          condval_17 = (*(float *)(&(_reinterpret_tmp_2)));
        } else {
          condval_17 = O[i_22];
        }
        O[i_22] = condval_17;
      }
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_23 = 0; i_23 < 128; ++i_23) {
        float condval_18;
        if ((((int*)spoilt)[(((((i_23 & 31) >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_23 & 1))] < 64)) {
          int _reinterpret_tmp_3 = 2143289344;
          condval_18 = (*(float *)(&(_reinterpret_tmp_3)));
        } else {
          condval_18 = S[i_23];
        }
        S[i_23] = condval_18;
      }
    }
    state_largest = 0x0p+0f/*0.000000e+00*/;
    odd_largest = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int i_24 = 0; i_24 < 128; ++i_24) {
      if ((i_24 % 2) == 0) {
        state_largest = max(state_largest, fabsf(S[i_24]));
      } else {
        odd_largest = max(odd_largest, fabsf(S[i_24]));
      }
    }
    __syncthreads();
    #pragma unroll
    for (int i_25 = 0; i_25 < 16; ++i_25) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_25 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_25 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((int64_t)after) * (int64_t)49152) + (((int64_t)i_25) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)32768)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_26 = 0; i_26 < 4; ++i_26) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((i_26 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(triangles[(((((int64_t)after) * (int64_t)4096) + (((int64_t)i_26) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    tl::cp_async_gs<16>((&(((float*)numbers)[(((int)threadIdx.x) * 4)])), (&(vectors[((((int64_t)after) * (int64_t)512) + (((int64_t)((int)threadIdx.x)) * (int64_t)4))])));
    tl::cp_async_commit();
    __syncthreads();
    #pragma unroll
    for (int i_27 = 0; i_27 < 4; ++i_27) {
      tl::ptx_stmatrix_m8n8_x4((&(((bfloat16_t*)O16)[(((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (i_27 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), __pack_half2(((bfloat16_t)O[(i_27 * 8)]), ((bfloat16_t)O[((i_27 * 8) + 1)])), __pack_half2(((bfloat16_t)O[((i_27 * 8) + 2)]), ((bfloat16_t)O[((i_27 * 8) + 3)])), __pack_half2(((bfloat16_t)O[((i_27 * 8) + 4)]), ((bfloat16_t)O[((i_27 * 8) + 5)])), __pack_half2(((bfloat16_t)O[((i_27 * 8) + 6)]), ((bfloat16_t)O[((i_27 * 8) + 7)])));
    }
    __syncthreads();
    #pragma unroll
    for (int i_28 = 0; i_28 < 4; ++i_28) {
      if (((((c * 64) + (i_28 * 16)) + (((int)threadIdx.x) >> 3)) + begin) < end) {
        *(uint4*)(o + (((((((int64_t)column) * (int64_t)64) + ((((int64_t)batch) * o_batch) * (int64_t)8)) + ((((((((int64_t)c) * (int64_t)64) + (((int64_t)i_28) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + ((int64_t)begin)) * o_token) * (int64_t)8)) + ((((int64_t)head) * o_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(((bfloat16_t*)O16) + ((i_28 * 1024) + (((int)threadIdx.x) * 8)));
      }
    }
  }
  tl::cp_async_wait<0>();
  __syncthreads();
  if (((has_final != 0) && (0 <= read_slot)) && (0 <= write_slot)) {
    #pragma unroll
    for (int i_29 = 0; i_29 < 128; ++i_29) {
      int v__16 = (exponent + 127) << 23;
      final_state[((((((int64_t)write_slot) * final_slot) + (((int64_t)head) * final_head)) + ((((((((int64_t)i_29) >> (int64_t)5) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + (((((int64_t)i_29) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * final_key)) + (((((((int64_t)column) * (int64_t)64) + (((((int64_t)i_29) & (int64_t)31) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_29) & (int64_t)1)) * final_value))] = ((*(float *)(&(v__16))) * S[i_29]);
    }
  }
}

cudaError_t kda_state_k256_bf16_varlen(const KdaState& arguments, cudaStream_t stream) {
  static Prepared prepared{0};
  return launch(kda_state_k256_bf16_varlen_kernel, prepared, dim3(static_cast<unsigned>(arguments.N * arguments.HV * (arguments.V / 64))), dim3(128, 1, 1),
                157952, stream,
                static_cast<const int*>(arguments.cu_seqlens),
                static_cast<float*>(arguments.final_state),
                static_cast<const float*>(arguments.initial_state),
                static_cast<bfloat16_t*>(arguments.o),
                static_cast<const half_t*>(arguments.operators),
                static_cast<const int*>(arguments.read_slots),
                static_cast<const half_t*>(arguments.triangles),
                static_cast<const bfloat16_t*>(arguments.v),
                static_cast<const float*>(arguments.vectors),
                static_cast<const int*>(arguments.write_slots),
                arguments.HV,
                arguments.N,
                arguments.V,
                arguments.cu_seqlens_stride,
                arguments.cu_seqlens_wide,
                arguments.final_head,
                arguments.final_key,
                arguments.final_slot,
                arguments.final_value,
                arguments.has_final,
                arguments.has_initial,
                arguments.has_read_slots,
                arguments.has_write_slots,
                arguments.initial_head,
                arguments.initial_key,
                arguments.initial_slot,
                arguments.initial_value,
                arguments.o_batch,
                arguments.o_head,
                arguments.o_token,
                arguments.pool,
                arguments.read_slots_stride,
                arguments.read_slots_wide,
                arguments.scale,
                arguments.tokens,
                arguments.v_batch,
                arguments.v_head,
                arguments.v_token,
                arguments.write_slots_stride,
                arguments.write_slots_wide);
}

}  // namespace fla::tilelang::generated
