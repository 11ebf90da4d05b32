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

static __global__ void __launch_bounds__(128, 1) kda_state_k128_bf16_kernel(float* final_state, const float* initial_state, bfloat16_t* __restrict__ o, const half_t* __restrict__ operators, const int* __restrict__ read_slots, const half_t* __restrict__ triangles, const bfloat16_t* __restrict__ v, const float* __restrict__ vectors, const int* __restrict__ write_slots, int HV, int N, int V, int64_t final_head, int64_t final_key, int64_t final_slot, int64_t final_value, int has_final, int has_initial, int has_read_slots, int has_write_slots, int64_t initial_head, int64_t initial_key, int64_t initial_slot, int64_t initial_value, int64_t o_batch, int64_t o_head, int64_t o_token, int pool, int64_t read_slots_stride, int read_slots_wide, float scale, int tokens, int64_t v_batch, int64_t v_head, int64_t v_token, int64_t write_slots_stride, int write_slots_wide) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* Kt = ((void*)((char*)buf_dyn_shmem + 0));
  void* Qt = ((void*)((char*)buf_dyn_shmem + 32768));
  void* Kr = ((void*)((char*)buf_dyn_shmem + 65536));
  void* B = ((void*)((char*)buf_dyn_shmem + 98304));
  void* numbers = ((void*)((char*)buf_dyn_shmem + 114688));
  void* S16 = ((void*)((char*)buf_dyn_shmem + 117760));
  void* O16 = ((void*)((char*)buf_dyn_shmem + 134144));
  void* Y16 = ((void*)((char*)buf_dyn_shmem + 142336));
  void* spoilt = ((void*)((char*)buf_dyn_shmem + 150528));
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
  float S[64];
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
  begin = 0;
  end = tokens;
  batch = n;
  place = (n * ((tokens + 63) >> 6));
  read_slot = n;
  if (has_read_slots != 0) {
    int condval;
    if ((read_slots_wide != 0)) {
      int condval_1;
      if (((read_slots[(((((int64_t)n) * read_slots_stride) * (int64_t)2) + (int64_t)1)] == 0) && (0 <= read_slots[((((int64_t)n) * read_slots_stride) * (int64_t)2)]))) {
        condval_1 = read_slots[((((int64_t)n) * read_slots_stride) * (int64_t)2)];
      } else {
        int condval_2;
        if ((read_slots[(((((int64_t)n) * read_slots_stride) * (int64_t)2) + (int64_t)1)] < 0)) {
          condval_2 = -1;
        } else {
          condval_2 = 2147483647;
        }
        condval_1 = condval_2;
      }
      condval = condval_1;
    } else {
      condval = read_slots[(((int64_t)n) * read_slots_stride)];
    }
    read_slot = condval;
    if (pool <= read_slot) {
      read_slot = -1;
    }
  }
  write_slot = read_slot;
  if (has_write_slots != 0) {
    int condval_3;
    if ((write_slots_wide != 0)) {
      int condval_4;
      if (((write_slots[(((((int64_t)n) * write_slots_stride) * (int64_t)2) + (int64_t)1)] == 0) && (0 <= write_slots[((((int64_t)n) * write_slots_stride) * (int64_t)2)]))) {
        condval_4 = write_slots[((((int64_t)n) * write_slots_stride) * (int64_t)2)];
      } else {
        int condval_5;
        if ((write_slots[(((((int64_t)n) * write_slots_stride) * (int64_t)2) + (int64_t)1)] < 0)) {
          condval_5 = -1;
        } else {
          condval_5 = 2147483647;
        }
        condval_4 = condval_5;
      }
      condval_3 = condval_4;
    } else {
      condval_3 = write_slots[(((int64_t)n) * write_slots_stride)];
    }
    write_slot = condval_3;
    if (pool <= write_slot) {
      write_slot = -1;
    }
  }
  int chunks = (((end + 63) - begin) >> 6);
  exponent = 0;
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    float broadcast_var = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(S + (i * 4)) = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
  }
  if ((has_initial != 0) && (0 <= read_slot)) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 64; ++i_1) {
      S[i_1] = initial_state[((((((int64_t)read_slot) * initial_slot) + (((int64_t)head) * initial_head)) + ((((((((int64_t)i_1) >> (int64_t)5) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + (((((int64_t)i_1) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * initial_key)) + (((((((int64_t)column) * (int64_t)64) + (((((int64_t)i_1) & (int64_t)31) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_1) & (int64_t)1)) * initial_value))];
    }
  }
  state_largest = 0x0p+0f/*0.000000e+00*/;
  odd_largest = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int i_2 = 0; i_2 < 64; ++i_2) {
    if ((i_2 % 2) == 0) {
      state_largest = max(state_largest, fabsf(S[i_2]));
    } else {
      odd_largest = max(odd_largest, fabsf(S[i_2]));
    }
  }
  if (0 < chunks) {
    #pragma unroll
    for (int i_3 = 0; i_3 < 8; ++i_3) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_3 * 512)) + ((((int)threadIdx.x) >> 4) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)24576) + (((int64_t)head) * (int64_t)24576)) + (((int64_t)i_3) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_4 = 0; i_4 < 8; ++i_4) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_4 * 512)) + ((((int)threadIdx.x) >> 4) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)24576) + (((int64_t)head) * (int64_t)24576)) + (((int64_t)i_4) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)8192)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_5 = 0; i_5 < 8; ++i_5) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_5 * 512)) + ((((int)threadIdx.x) >> 4) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)24576) + (((int64_t)head) * (int64_t)24576)) + (((int64_t)i_5) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_6 = 0; i_6 < 4; ++i_6) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((i_6 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(triangles[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)4096) + (((int64_t)head) * (int64_t)4096)) + (((int64_t)i_6) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_7 = 0; i_7 < 3; ++i_7) {
      tl::cp_async_gs<4>((&(((float*)numbers)[((i_7 * 128) + ((int)threadIdx.x))])), (&(vectors[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)384) + (((int64_t)head) * (int64_t)384)) + (((int64_t)i_7) * (int64_t)128)) + ((int64_t)((int)threadIdx.x)))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_8 = 0; i_8 < 16; ++i_8) {
      *(uint1*)(values + (i_8 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_8) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min((((((((int)threadIdx.x) >> 5) * 16) + ((i_8 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
    }
  }
  for (int c = 0; c < chunks; ++c) {
    int after = (((min((c + 1), (chunks - 1)) + place) * HV) + head);
    __syncthreads();
    #pragma unroll
    for (int i_9 = 0; i_9 < 8; ++i_9) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[((((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_9 * 512)) + ((((int)threadIdx.x) >> 4) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 8192) - ((c & 1) * 8192))])), (&(operators[(((((int64_t)after) * (int64_t)24576) + (((int64_t)i_9) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_10 = 0; i_10 < 8; ++i_10) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[((((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_10 * 512)) + ((((int)threadIdx.x) >> 4) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 8192) - ((c & 1) * 8192))])), (&(operators[((((((int64_t)after) * (int64_t)24576) + (((int64_t)i_10) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)8192)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_11 = 0; i_11 < 8; ++i_11) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[((((((((((((int)threadIdx.x) & 15) >> 3) * 4096) + (i_11 * 512)) + ((((int)threadIdx.x) >> 4) * 64)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 8192) - ((c & 1) * 8192))])), (&(operators[((((((int64_t)after) * (int64_t)24576) + (((int64_t)i_11) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_12 = 0; i_12 < 4; ++i_12) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((((i_12 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096) - ((c & 1) * 4096))])), (&(triangles[(((((int64_t)after) * (int64_t)4096) + (((int64_t)i_12) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_13 = 0; i_13 < 3; ++i_13) {
      tl::cp_async_gs<4>((&(((float*)numbers)[((((i_13 * 128) + ((int)threadIdx.x)) + 384) - ((c & 1) * 384))])), (&(vectors[(((((int64_t)after) * (int64_t)384) + (((int64_t)i_13) * (int64_t)128)) + ((int64_t)((int)threadIdx.x)))])));
    }
    tl::cp_async_commit();
    tl::cp_async_wait<5>();
    __syncthreads();
    value_largest = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int i_14 = 0; i_14 < 32; ++i_14) {
      value_largest = fla::tilelang::larger(value_largest, (((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + (((i_14 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 128)] * ((float)values[i_14])));
    }
    chosen = fla::tilelang::largest_exponent(max(state_largest, odd_largest), value_largest, exponent);
    int condval_6;
    if ((chosen == 100000)) {
      condval_6 = 1;
    } else {
      condval_6 = 0;
    }
    rare = condval_6;
    if (rare != 0) {
      if (((int)threadIdx.x) < 64) {
        first = 64;
      }
    }
    if (rare != 0) {
      if (((int)threadIdx.x) < 64) {
        for (int i_15 = 0; i_15 < 64; ++i_15) {
          if (((((c * 64) + begin) + i_15) < end) && (first == 64)) {
            float v_ = ((float*)numbers)[((((c & 1) * 384) + i_15) + 128)] * ((float)v[(((((((int64_t)column) * (int64_t)64) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + (((((((int64_t)c) * (int64_t)64) + ((int64_t)begin)) + ((int64_t)i_15)) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((int64_t)((int)threadIdx.x)))]);
            if (2139095040 <= ((*(int *)(&(v_))) & 2147483647)) {
              first = i_15;
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
      for (int i_16 = 0; i_16 < 64; ++i_16) {
        float v__1 = S[i_16];
        float condval_7;
        if ((((*(int *)(&(v__1))) & 2147483647) < 2139095040)) {
          condval_7 = fabsf(S[i_16]);
        } else {
          condval_7 = 0x0p+0f/*0.000000e+00*/;
        }
        state_largest = max(state_largest, condval_7);
      }
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_17 = 0; i_17 < 32; ++i_17) {
        float weighted = (((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + (((i_17 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 128)] * ((float)values[i_17]));
        float _reinterpret_tmp = weighted;
        bfloat16_t condval_8;
        if ((((*(int *)(&(_reinterpret_tmp))) & 2147483647) < 2139095040)) {
          condval_8 = values[i_17];
        } else {
          condval_8 = bfloat16_t(0x0p+0f/*0.000000e+00*/);
        }
        values[i_17] = condval_8;
        float _reinterpret_tmp_1 = weighted;
        float condval_9;
        if ((((*(int *)(&(_reinterpret_tmp_1))) & 2147483647) < 2139095040)) {
          condval_9 = fabsf(weighted);
        } else {
          condval_9 = 0x0p+0f/*0.000000e+00*/;
        }
        value_largest = max(value_largest, condval_9);
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
        for (int i_18 = 0; i_18 < 16; ++i_18) {
          float4 __1;
            float4 v__2 = *(float4*)(S + (i_18 * 4));
            int v__3 = (max(min((exponent - chosen), 126), -126) + 127) << 23;
            float4 v__4 = make_float4((*(float *)(&(v__3))), (*(float *)(&(v__3))), (*(float *)(&(v__3))), (*(float *)(&(v__3))));
            __1.x = (v__2.x*v__4.x);
            __1.y = (v__2.y*v__4.y);
            __1.z = (v__2.z*v__4.z);
            __1.w = (v__2.w*v__4.w);
          *(float4*)(S + (i_18 * 4)) = __1;
        }
      }
      exponent = chosen;
    }
    __syncthreads();
    #pragma unroll
    for (int i_19 = 0; i_19 < 8; ++i_19) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)S16)[(((((((i_19 >> 2) * 4096) + ((((int)threadIdx.x) >> 5) * 1024)) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + ((i_19 & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_19 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)S[(i_19 * 8)]), ((half_t)S[((i_19 * 8) + 1)])), __pack_half2(((half_t)S[((i_19 * 8) + 2)]), ((half_t)S[((i_19 * 8) + 3)])), __pack_half2(((half_t)S[((i_19 * 8) + 4)]), ((half_t)S[((i_19 * 8) + 5)])), __pack_half2(((half_t)S[((i_19 * 8) + 6)]), ((half_t)S[((i_19 * 8) + 7)])));
    }
    __syncthreads();
    #pragma unroll
    for (int i_20 = 0; i_20 < 32; ++i_20) {
      float2 __2;
        float2 v__5 = *(float2*)(S + (i_20 * 2));
        float2 v__6 = make_float2(((float*)numbers)[((((((c & 1) * 384) + ((i_20 >> 4) * 64)) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_20 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))], ((float*)numbers)[((((((c & 1) * 384) + ((i_20 >> 4) * 64)) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_20 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))]);
        __2.x = (v__5.x*v__6.x);
        __2.y = (v__5.y*v__6.y);
      *(float2*)(S + (i_20 * 2)) = __2;
    }
    {
      tl::GmmaDescriptor desc_a;
      tl::GmmaDescriptor desc_b;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a, (&(((half_t*)Kt)[0])));
      tl::increase_descriptor_offset<int>(desc_a, ((c & 1) * 16384));
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b, (&(((half_t*)S16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(Y + 0), 32);
      tl::warpgroup_arrive();
      tl::fence_proxy_async();
      #pragma unroll
      for (int ki = 0; ki < 8; ++ki) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a + ((((ki >> 2) * 8192) + ((ki & 3) * 32)) >> 4)), uint64_t(desc_b + ((ki * 2048) >> 4)), ((uint32_t*)(Y + 0)), ((0 < ki) ? 1 : 0));
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(Y + 0), 32);
    }
    {
      tl::GmmaDescriptor desc_a_1;
      tl::GmmaDescriptor desc_b_1;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_1, (&(((half_t*)Qt)[0])));
      tl::increase_descriptor_offset<int>(desc_a_1, ((c & 1) * 16384));
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_1, (&(((half_t*)S16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
      tl::warpgroup_arrive();
      #pragma unroll
      for (int ki_1 = 0; ki_1 < 8; ++ki_1) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a_1 + ((((ki_1 >> 2) * 8192) + ((ki_1 & 3) * 32)) >> 4)), uint64_t(desc_b_1 + ((ki_1 * 2048) >> 4)), ((uint32_t*)(O + 0)), ((0 < ki_1) ? 1 : 0));
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
    }
    tl::wait_wgmma<0>();
    #pragma unroll
    for (int i_21 = 0; i_21 < 16; ++i_21) {
      float numbers_local_cast[2];
      float numbers_local_cast_1[2];
      *(float2*)(numbers_local_cast + 0) = make_float2(((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_21 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 128)], ((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_21 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 128)]);
      *(float2*)(numbers_local_cast_1 + 0) = make_float2(((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_21 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 192)], ((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_21 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 192)]);
      float2 __3;
        float2 __4;
          float2 __5;
            float2 v__7 = *(float2*)(numbers_local_cast + 0);
            float2 __6;
            uint1 v__8 = *(uint1*)(values + (i_21 * 2));
            ((float2*)(&__6))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__8))[0]);
            __5.x = (v__7.x*__6.x);
            __5.y = (v__7.y*__6.y);
          int v__9 = (127 - exponent) << 23;
          float2 v__10 = make_float2((*(float *)(&(v__9))), (*(float *)(&(v__9))));
          __4.x = (__5.x*v__10.x);
          __4.y = (__5.y*v__10.y);
        float2 __7;
          float2 v__11 = *(float2*)(numbers_local_cast_1 + 0);
          float2 v__12 = *(float2*)(Y + (i_21 * 2));
          __7.x = (v__11.x*v__12.x);
          __7.y = (v__11.y*v__12.y);
        __3.x = (__4.x-__7.x);
        __3.y = (__4.y-__7.y);
      *(float2*)(Y + (i_21 * 2)) = __3;
    }
    __syncthreads();
    #pragma unroll
    for (int i_22 = 0; i_22 < 4; ++i_22) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)Y16)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_22 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_22 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Y[(i_22 * 8)]), ((half_t)Y[((i_22 * 8) + 1)])), __pack_half2(((half_t)Y[((i_22 * 8) + 2)]), ((half_t)Y[((i_22 * 8) + 3)])), __pack_half2(((half_t)Y[((i_22 * 8) + 4)]), ((half_t)Y[((i_22 * 8) + 5)])), __pack_half2(((half_t)Y[((i_22 * 8) + 6)]), ((half_t)Y[((i_22 * 8) + 7)])));
    }
    #pragma unroll
    for (int i_23 = 0; i_23 < 16; ++i_23) {
      *(uint1*)(values + (i_23 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_23) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min(((((((c * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_23 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin) + 64), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
    }
    {
      tl::GmmaDescriptor desc_a_2;
      tl::GmmaDescriptor desc_b_2;
      tl::initialize_wgmma_descriptor<1, 512, 64>(desc_a_2, (&(((half_t*)Kr)[0])));
      tl::increase_descriptor_offset<int>(desc_a_2, ((c & 1) * 16384));
      __syncthreads();
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_2, (&(((half_t*)Y16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 64);
      tl::warpgroup_arrive();
      tl::fence_proxy_async();
      #pragma unroll
      for (int i_24 = 0; i_24 < 2; ++i_24) {
        #pragma unroll
        for (int ki_2 = 0; ki_2 < 4; ++ki_2) {
          tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, true, true, 1, 1>(uint64_t(desc_a_2 + (((i_24 * 8192) + (ki_2 * 2048)) >> 4)), uint64_t(desc_b_2 + ((ki_2 * 2048) >> 4)), ((uint32_t*)(S + (i_24 * 32))), 1);
        }
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 64);
    }
    {
      tl::GmmaDescriptor desc_a_3;
      tl::GmmaDescriptor desc_b_3;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_3, (&(((half_t*)B)[0])));
      tl::increase_descriptor_offset<int>(desc_a_3, ((c & 1) * 8192));
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
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 64);
    #pragma unroll
    for (int i_25 = 0; i_25 < 16; ++i_25) {
      float broadcast_var_1 = 0x0p+0f/*0.000000e+00*/;
      float2 condval_10;
      if ((0 <= read_slot)) {
        float2 __8;
          int v__13 = (exponent + 127) << 23;
          float2 v__14 = make_float2(((((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_25 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 256)] * scale) * (*(float *)(&(v__13)))), ((((float*)numbers)[((((((c & 1) * 384) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_25 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 256)] * scale) * (*(float *)(&(v__13)))));
          float2 v__15 = *(float2*)(O + (i_25 * 2));
          __8.x = (v__14.x*v__15.x);
          __8.y = (v__14.y*v__15.y);
        condval_10 = __8;
      } else {
        condval_10 = make_float2(broadcast_var_1, broadcast_var_1);
      }
      *(float2*)(O + (i_25 * 2)) = condval_10;
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_26 = 0; i_26 < 32; ++i_26) {
        float condval_11;
        if (((0 <= read_slot) && (((int*)spoilt)[((((i_26 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_26 & 1))] <= ((((((int)threadIdx.x) >> 5) * 16) + (((i_26 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))))) {
          int _reinterpret_tmp_2 = 2143289344;
          condval_11 = (*(float *)(&(_reinterpret_tmp_2)));
        } else {
          condval_11 = O[i_26];
        }
        O[i_26] = condval_11;
      }
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_27 = 0; i_27 < 64; ++i_27) {
        float condval_12;
        if ((((int*)spoilt)[(((((i_27 & 31) >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_27 & 1))] < 64)) {
          int _reinterpret_tmp_3 = 2143289344;
          condval_12 = (*(float *)(&(_reinterpret_tmp_3)));
        } else {
          condval_12 = S[i_27];
        }
        S[i_27] = condval_12;
      }
    }
    state_largest = 0x0p+0f/*0.000000e+00*/;
    odd_largest = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int i_28 = 0; i_28 < 64; ++i_28) {
      if ((i_28 % 2) == 0) {
        state_largest = max(state_largest, fabsf(S[i_28]));
      } else {
        odd_largest = max(odd_largest, fabsf(S[i_28]));
      }
    }
    __syncthreads();
    #pragma unroll
    for (int i_29 = 0; i_29 < 4; ++i_29) {
      tl::ptx_stmatrix_m8n8_x4((&(((bfloat16_t*)O16)[(((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (i_29 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), __pack_half2(((bfloat16_t)O[(i_29 * 8)]), ((bfloat16_t)O[((i_29 * 8) + 1)])), __pack_half2(((bfloat16_t)O[((i_29 * 8) + 2)]), ((bfloat16_t)O[((i_29 * 8) + 3)])), __pack_half2(((bfloat16_t)O[((i_29 * 8) + 4)]), ((bfloat16_t)O[((i_29 * 8) + 5)])), __pack_half2(((bfloat16_t)O[((i_29 * 8) + 6)]), ((bfloat16_t)O[((i_29 * 8) + 7)])));
    }
    __syncthreads();
    #pragma unroll
    for (int i_30 = 0; i_30 < 4; ++i_30) {
      if (((((c * 64) + (i_30 * 16)) + (((int)threadIdx.x) >> 3)) + begin) < end) {
        *(uint4*)(o + (((((((int64_t)column) * (int64_t)64) + ((((int64_t)batch) * o_batch) * (int64_t)8)) + ((((((((int64_t)c) * (int64_t)64) + (((int64_t)i_30) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + ((int64_t)begin)) * o_token) * (int64_t)8)) + ((((int64_t)head) * o_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(((bfloat16_t*)O16) + ((i_30 * 1024) + (((int)threadIdx.x) * 8)));
      }
    }
  }
  tl::cp_async_wait<0>();
  __syncthreads();
  if (((has_final != 0) && (0 <= read_slot)) && (0 <= write_slot)) {
    #pragma unroll
    for (int i_31 = 0; i_31 < 64; ++i_31) {
      int v__16 = (exponent + 127) << 23;
      final_state[((((((int64_t)write_slot) * final_slot) + (((int64_t)head) * final_head)) + ((((((((int64_t)i_31) >> (int64_t)5) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + (((((int64_t)i_31) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * final_key)) + (((((((int64_t)column) * (int64_t)64) + (((((int64_t)i_31) & (int64_t)31) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_31) & (int64_t)1)) * final_value))] = ((*(float *)(&(v__16))) * S[i_31]);
    }
  }
}

cudaError_t kda_state_k128_bf16(const KdaState& arguments, cudaStream_t stream) {
  static Prepared prepared{0};
  return launch(kda_state_k128_bf16_kernel, prepared, dim3(static_cast<unsigned>(arguments.N * arguments.HV * (arguments.V / 64))), dim3(128, 1, 1),
                150784, stream,
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
