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

static __global__ void __launch_bounds__(128, 1) kda_state_k64_f16_kernel(float* final_state, const float* initial_state, half_t* __restrict__ o, const half_t* __restrict__ operators, const int* __restrict__ read_slots, const half_t* __restrict__ triangles, const half_t* __restrict__ v, const float* __restrict__ vectors, const int* __restrict__ write_slots, int HV, int N, int V, int64_t final_head, int64_t final_key, int64_t final_slot, int64_t final_value, int has_final, int has_initial, int has_read_slots, int has_write_slots, int64_t initial_head, int64_t initial_key, int64_t initial_slot, int64_t initial_value, int64_t o_batch, int64_t o_head, int64_t o_token, int pool, int64_t read_slots_stride, int read_slots_wide, float scale, int tokens, int64_t v_batch, int64_t v_head, int64_t v_token, int64_t write_slots_stride, int write_slots_wide) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* spoilt = ((void*)((char*)buf_dyn_shmem + 0));
  void* notes = ((void*)((char*)buf_dyn_shmem + 256));
  void* Kt = ((void*)((char*)buf_dyn_shmem + 1024));
  void* Qt = ((void*)((char*)buf_dyn_shmem + 17408));
  void* Kr = ((void*)((char*)buf_dyn_shmem + 33792));
  void* B = ((void*)((char*)buf_dyn_shmem + 50176));
  void* numbers = ((void*)((char*)buf_dyn_shmem + 66560));
  void* O16 = ((void*)((char*)buf_dyn_shmem + 68608));
  void* S16 = ((void*)((char*)buf_dyn_shmem + 76800));
  void* Y16 = ((void*)((char*)buf_dyn_shmem + 84992));
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
  int marked = 0;
  float S[32];
  float weights[2];
  half_t values[32];
  half_t halves[32];
  int rare = 0;
  int first = 0;
  float state_largest = 0x0p+0f/*0.000000e+00*/;
  float value_largest = 0x0p+0f/*0.000000e+00*/;
  int chosen = 0;
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
  exponent = 3;
  marked = 0;
  if (((int)threadIdx.x) < 64) {
    ((int*)spoilt)[((int)threadIdx.x)] = 2147483647;
  }
  if (((int)threadIdx.x) < 8) {
    ((int*)notes)[((int)threadIdx.x)] = -1;
  }
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    float broadcast_var = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(S + (i * 4)) = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
  }
  if ((has_initial != 0) && (0 <= read_slot)) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 32; ++i_1) {
      int _reinterpret_tmp = 1040187392;
      S[i_1] = ((*(float *)(&(_reinterpret_tmp))) * initial_state[((((((int64_t)read_slot) * initial_slot) + (((int64_t)head) * initial_head)) + (((((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16) + (((((int64_t)i_1) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * initial_key)) + (((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_1) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_1) & (int64_t)1)) * initial_value))]);
    }
  }
  __syncthreads();
  if (0 < chunks) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 4; ++i_2) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[(((((i_2 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)12288) + (((int64_t)head) * (int64_t)12288)) + (((int64_t)i_2) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_3 = 0; i_3 < 4; ++i_3) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[(((((i_3 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)12288) + (((int64_t)head) * (int64_t)12288)) + (((int64_t)i_3) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)4096)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_4 = 0; i_4 < 4; ++i_4) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[(((((i_4 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)12288) + (((int64_t)head) * (int64_t)12288)) + (((int64_t)i_4) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)8192)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_5 = 0; i_5 < 4; ++i_5) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((i_5 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(triangles[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)4096) + (((int64_t)head) * (int64_t)4096)) + (((int64_t)i_5) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    tl::cp_async_gs<8>((&(((float*)numbers)[(((int)threadIdx.x) * 2)])), (&(vectors[((((((int64_t)place) * ((int64_t)HV)) * (int64_t)256) + (((int64_t)head) * (int64_t)256)) + (((int64_t)((int)threadIdx.x)) * (int64_t)2))])));
    tl::cp_async_commit();
    weights[0] = fabsf(vectors[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)256) + (((int64_t)head) * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) + (int64_t)64)]);
    weights[1] = fabsf(vectors[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)256) + (((int64_t)head) * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) + (int64_t)72)]);
    #pragma unroll
    for (int i_6 = 0; i_6 < 16; ++i_6) {
      *(uint1*)(values + (i_6 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_6) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min((((((((int)threadIdx.x) >> 5) * 16) + ((i_6 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
    }
  }
  for (int c = 0; c < chunks; ++c) {
    int after = (((min((c + 1), (chunks - 1)) + place) * HV) + head);
    __syncthreads();
    #pragma unroll
    for (int i_7 = 0; i_7 < 4; ++i_7) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[(((((((i_7 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096) - ((c & 1) * 4096))])), (&(operators[(((((int64_t)after) * (int64_t)12288) + (((int64_t)i_7) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_8 = 0; i_8 < 4; ++i_8) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[(((((((i_8 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096) - ((c & 1) * 4096))])), (&(operators[((((((int64_t)after) * (int64_t)12288) + (((int64_t)i_8) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)4096)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_9 = 0; i_9 < 4; ++i_9) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[(((((((i_9 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096) - ((c & 1) * 4096))])), (&(operators[((((((int64_t)after) * (int64_t)12288) + (((int64_t)i_9) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)8192)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_10 = 0; i_10 < 4; ++i_10) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((((i_10 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096) - ((c & 1) * 4096))])), (&(triangles[(((((int64_t)after) * (int64_t)4096) + (((int64_t)i_10) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    tl::cp_async_gs<8>((&(((float*)numbers)[(((((int)threadIdx.x) * 2) + 256) - ((c & 1) * 256))])), (&(vectors[((((int64_t)after) * (int64_t)256) + (((int64_t)((int)threadIdx.x)) * (int64_t)2))])));
    tl::cp_async_commit();
    #pragma unroll
    for (int i_11 = 0; i_11 < 8; ++i_11) {
      uint2 __1;
      float4 v_ = *(float4*)(S + (i_11 * 4));
      ((half2*)(&__1))[0] = __float22half2_rn(((float2*)(&v_))[0]);
      ((half2*)(&__1))[1] = __float22half2_rn(((float2*)(&v_))[1]);
      *(uint2*)(halves + (i_11 * 4)) = __1;
    }
    int v__1 = (exponent + 120) << 23;
    int v__2 = (exponent + 128) << 23;
    fla::tilelang::note(((void*)((char*)buf_dyn_shmem + 256)), c, fla::tilelang::bits_of<32>(halves), fla::tilelang::larger_of((weights[0] * fla::tilelang::largest_of_row<0>(values)), (weights[1] * fla::tilelang::largest_of_row<1>(values))), (*(float *)(&(v__1))), (*(float *)(&(v__2))));
    tl::cp_async_wait<5>();
    __syncthreads();
    rare = fla::tilelang::is_rare(((void*)((char*)buf_dyn_shmem + 256)), c);
    if (rare != 0) {
      first = 2147483647;
    }
    if (rare != 0) {
      if (((int)threadIdx.x) < 64) {
        first = ((int*)spoilt)[((int)threadIdx.x)];
      }
    }
    if (rare != 0) {
      if (((int)threadIdx.x) < 64) {
        for (int i_12 = 0; i_12 < 64; ++i_12) {
          if (((((c * 64) + begin) + i_12) < end) && (first == 2147483647)) {
            float v__3 = ((float*)numbers)[((((c & 1) * 256) + i_12) + 64)] * ((float)v[(((((((int64_t)column) * (int64_t)64) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + (((((((int64_t)c) * (int64_t)64) + ((int64_t)begin)) + ((int64_t)i_12)) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((int64_t)((int)threadIdx.x)))]);
            if (2139095040 <= ((*(int *)(&(v__3))) & 2147483647)) {
              first = ((c * 64) + i_12);
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
      int condval_6;
      if ((first < 2147483647)) {
        condval_6 = 1;
      } else {
        condval_6 = 0;
      }
      marked = __syncthreads_or(condval_6);
    }
    if (rare != 0) {
      state_largest = 0x0p+0f/*0.000000e+00*/;
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_13 = 0; i_13 < 32; ++i_13) {
        float v__4 = S[i_13];
        float condval_7;
        if ((((*(int *)(&(v__4))) & 2147483647) < 2139095040)) {
          condval_7 = fabsf(S[i_13]);
        } else {
          condval_7 = 0x0p+0f/*0.000000e+00*/;
        }
        state_largest = max(state_largest, condval_7);
      }
    }
    if (rare != 0) {
      value_largest = 0x0p+0f/*0.000000e+00*/;
    }
    if (rare != 0) {
      #pragma unroll
      for (int i_14 = 0; i_14 < 32; ++i_14) {
        float weighted = (((float*)numbers)[((((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + (((i_14 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 64)] * ((float)values[i_14]));
        float _reinterpret_tmp_1 = weighted;
        half_t condval_8;
        if ((((*(int *)(&(_reinterpret_tmp_1))) & 2147483647) < 2139095040)) {
          condval_8 = values[i_14];
        } else {
          condval_8 = half_t(0x0p+0f/*0.000000e+00*/);
        }
        values[i_14] = condval_8;
        float _reinterpret_tmp_2 = weighted;
        float condval_9;
        if ((((*(int *)(&(_reinterpret_tmp_2))) & 2147483647) < 2139095040)) {
          condval_9 = fabsf(weighted);
        } else {
          condval_9 = 0x0p+0f/*0.000000e+00*/;
        }
        value_largest = max(value_largest, condval_9);
      }
    }
    if (rare != 0) {
      chosen = fla::tilelang::largest_exponent(((void*)((char*)buf_dyn_shmem + 256)), state_largest, value_largest, exponent);
    }
    if (rare != 0) {
      bool if_condition = ((-100000 < chosen) && (((chosen - exponent) < -7) || (1 <= (chosen - exponent))));
      if (if_condition) {
        chosen = min(max((chosen + 3), -119), 126);
        #pragma unroll
        for (int i_15 = 0; i_15 < 8; ++i_15) {
          float4 __2;
            float4 v__5 = *(float4*)(S + (i_15 * 4));
            int v__6 = (max(min((exponent - chosen), 126), -126) + 127) << 23;
            float4 v__7 = make_float4((*(float *)(&(v__6))), (*(float *)(&(v__6))), (*(float *)(&(v__6))), (*(float *)(&(v__6))));
            __2.x = (v__5.x*v__7.x);
            __2.y = (v__5.y*v__7.y);
            __2.z = (v__5.z*v__7.z);
            __2.w = (v__5.w*v__7.w);
          *(float4*)(S + (i_15 * 4)) = __2;
        }
        exponent = chosen;
      }
      #pragma unroll
      for (int i_16 = 0; i_16 < 8; ++i_16) {
        uint2 __3;
        float4 v__8 = *(float4*)(S + (i_16 * 4));
        ((half2*)(&__3))[0] = __float22half2_rn(((float2*)(&v__8))[0]);
        ((half2*)(&__3))[1] = __float22half2_rn(((float2*)(&v__8))[1]);
        *(uint2*)(halves + (i_16 * 4)) = __3;
      }
    }
    __syncthreads();
    #pragma unroll
    for (int i_17 = 0; i_17 < 4; ++i_17) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)S16)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_17 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_17 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(halves[(i_17 * 8)], halves[((i_17 * 8) + 1)]), __pack_half2(halves[((i_17 * 8) + 2)], halves[((i_17 * 8) + 3)]), __pack_half2(halves[((i_17 * 8) + 4)], halves[((i_17 * 8) + 5)]), __pack_half2(halves[((i_17 * 8) + 6)], halves[((i_17 * 8) + 7)]));
    }
    __syncthreads();
    #pragma unroll
    for (int i_18 = 0; i_18 < 16; ++i_18) {
      float2 __4;
        float2 v__9 = *(float2*)(S + (i_18 * 2));
        float2 v__10 = make_float2(((float*)numbers)[(((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_18 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))], ((float*)numbers)[(((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_18 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))]);
        __4.x = (v__9.x*v__10.x);
        __4.y = (v__9.y*v__10.y);
      *(float2*)(S + (i_18 * 2)) = __4;
    }
    {
      tl::GmmaDescriptor desc_a;
      tl::GmmaDescriptor desc_b;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a, (&(((half_t*)Kt)[0])));
      tl::increase_descriptor_offset<int>(desc_a, ((c & 1) * 8192));
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b, (&(((half_t*)S16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(Y + 0), 32);
      tl::warpgroup_arrive();
      tl::fence_proxy_async();
      #pragma unroll
      for (int ki = 0; ki < 4; ++ki) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a + ((ki * 32) >> 4)), uint64_t(desc_b + ((ki * 2048) >> 4)), ((uint32_t*)(Y + 0)), ((0 < ki) ? 1 : 0));
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(Y + 0), 32);
    }
    {
      tl::GmmaDescriptor desc_a_1;
      tl::GmmaDescriptor desc_b_1;
      tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_1, (&(((half_t*)Qt)[0])));
      tl::increase_descriptor_offset<int>(desc_a_1, ((c & 1) * 8192));
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_1, (&(((half_t*)S16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
      tl::warpgroup_arrive();
      #pragma unroll
      for (int ki_1 = 0; ki_1 < 4; ++ki_1) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, true, 1, 1>(uint64_t(desc_a_1 + ((ki_1 * 32) >> 4)), uint64_t(desc_b_1 + ((ki_1 * 2048) >> 4)), ((uint32_t*)(O + 0)), ((0 < ki_1) ? 1 : 0));
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(O + 0), 32);
    }
    tl::wait_wgmma<0>();
    #pragma unroll
    for (int i_19 = 0; i_19 < 16; ++i_19) {
      float numbers_local_cast[2];
      float numbers_local_cast_1[2];
      *(float2*)(numbers_local_cast + 0) = make_float2(((float*)numbers)[((((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_19 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 64)], ((float*)numbers)[((((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_19 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 64)]);
      *(float2*)(numbers_local_cast_1 + 0) = make_float2(((float*)numbers)[((((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_19 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 128)], ((float*)numbers)[((((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_19 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 128)]);
      float broadcast_var_1 = 0x1.c363cbf21f28ap+127f/*3.000000e+38*/;
      float broadcast_var_2 = -0x1.c363cbf21f28ap+127f/*-3.000000e+38*/;
      float2 __5;
        float2 __6;
          float2 __7;
            float2 __8;
              float2 __9;
                float2 v__11 = *(float2*)(numbers_local_cast + 0);
                int v__12 = (127 - exponent) << 23;
                float2 v__13 = make_float2((*(float *)(&(v__12))), (*(float *)(&(v__12))));
                __9.x = (v__11.x*v__13.x);
                __9.y = (v__11.y*v__13.y);
              float2 v__14 = make_float2(broadcast_var_1, broadcast_var_1);
              __8.x = min(__9.x, v__14.x);
              __8.y = min(__9.y, v__14.y);
            float2 v__15 = make_float2(broadcast_var_2, broadcast_var_2);
            __7.x = max(__8.x, v__15.x);
            __7.y = max(__8.y, v__15.y);
          float2 __10;
          uint1 v__16 = *(uint1*)(values + (i_19 * 2));
          ((float2*)(&__10))[0] = __half22float2(((half2*)(&v__16))[0]);
          __6.x = (__7.x*__10.x);
          __6.y = (__7.y*__10.y);
        float2 __11;
          float2 v__17 = *(float2*)(numbers_local_cast_1 + 0);
          float2 v__18 = *(float2*)(Y + (i_19 * 2));
          __11.x = (v__17.x*v__18.x);
          __11.y = (v__17.y*v__18.y);
        __5.x = (__6.x-__11.x);
        __5.y = (__6.y-__11.y);
      *(float2*)(Y + (i_19 * 2)) = __5;
    }
    __syncthreads();
    #pragma unroll
    for (int i_20 = 0; i_20 < 4; ++i_20) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)Y16)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_20 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_20 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Y[(i_20 * 8)]), ((half_t)Y[((i_20 * 8) + 1)])), __pack_half2(((half_t)Y[((i_20 * 8) + 2)]), ((half_t)Y[((i_20 * 8) + 3)])), __pack_half2(((half_t)Y[((i_20 * 8) + 4)]), ((half_t)Y[((i_20 * 8) + 5)])), __pack_half2(((half_t)Y[((i_20 * 8) + 6)]), ((half_t)Y[((i_20 * 8) + 7)])));
    }
    weights[0] = fabsf(vectors[((((((int64_t)after) * (int64_t)256) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) + (int64_t)64)]);
    weights[1] = fabsf(vectors[((((((int64_t)after) * (int64_t)256) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) + (int64_t)72)]);
    #pragma unroll
    for (int i_21 = 0; i_21 < 16; ++i_21) {
      *(uint1*)(values + (i_21 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_21) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min(((((((c * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_21 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin) + 64), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
    }
    {
      tl::GmmaDescriptor desc_a_2;
      tl::GmmaDescriptor desc_b_2;
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_a_2, (&(((half_t*)Kr)[0])));
      tl::increase_descriptor_offset<int>(desc_a_2, ((c & 1) * 8192));
      __syncthreads();
      tl::initialize_wgmma_descriptor<1, 0, 64>(desc_b_2, (&(((half_t*)Y16)[0])));
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 32);
      tl::warpgroup_arrive();
      tl::fence_proxy_async();
      #pragma unroll
      for (int ki_2 = 0; ki_2 < 4; ++ki_2) {
        tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, true, true, 1, 1>(uint64_t(desc_a_2 + ((ki_2 * 2048) >> 4)), uint64_t(desc_b_2 + ((ki_2 * 2048) >> 4)), ((uint32_t*)(S + 0)), 1);
      }
      tl::warpgroup_commit_batch();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 32);
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
    tl::warpgroup_fence_operand(reinterpret_cast<float*>(S + 0), 32);
    #pragma unroll
    for (int i_22 = 0; i_22 < 16; ++i_22) {
      float broadcast_var_3 = 0x0p+0f/*0.000000e+00*/;
      float2 condval_10;
      if ((0 <= read_slot)) {
        float2 __12;
          int v__19 = (exponent + 127) << 23;
          float2 v__20 = make_float2(((((float*)numbers)[((((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_22 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 192)] * scale) * (*(float *)(&(v__19)))), ((((float*)numbers)[((((((c & 1) * 256) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_22 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 192)] * scale) * (*(float *)(&(v__19)))));
          float2 v__21 = *(float2*)(O + (i_22 * 2));
          __12.x = (v__20.x*v__21.x);
          __12.y = (v__20.y*v__21.y);
        condval_10 = __12;
      } else {
        condval_10 = make_float2(broadcast_var_3, broadcast_var_3);
      }
      *(float2*)(O + (i_22 * 2)) = condval_10;
    }
    if (marked != 0) {
      #pragma unroll
      for (int i_23 = 0; i_23 < 32; ++i_23) {
        float condval_11;
        if (((0 <= read_slot) && (((int*)spoilt)[((((i_23 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_23 & 1))] <= ((((c * 64) + ((((int)threadIdx.x) >> 5) * 16)) + (((i_23 & 3) >> 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))))) {
          int _reinterpret_tmp_3 = 2143289344;
          condval_11 = (*(float *)(&(_reinterpret_tmp_3)));
        } else {
          condval_11 = O[i_23];
        }
        O[i_23] = condval_11;
      }
    }
    __syncthreads();
    #pragma unroll
    for (int i_24 = 0; i_24 < 4; ++i_24) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)O16)[(((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (i_24 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), __pack_half2(((half_t)O[(i_24 * 8)]), ((half_t)O[((i_24 * 8) + 1)])), __pack_half2(((half_t)O[((i_24 * 8) + 2)]), ((half_t)O[((i_24 * 8) + 3)])), __pack_half2(((half_t)O[((i_24 * 8) + 4)]), ((half_t)O[((i_24 * 8) + 5)])), __pack_half2(((half_t)O[((i_24 * 8) + 6)]), ((half_t)O[((i_24 * 8) + 7)])));
    }
    __syncthreads();
    #pragma unroll
    for (int i_25 = 0; i_25 < 4; ++i_25) {
      if (((((c * 64) + (i_25 * 16)) + (((int)threadIdx.x) >> 3)) + begin) < end) {
        *(uint4*)(o + (((((((int64_t)column) * (int64_t)64) + ((((int64_t)batch) * o_batch) * (int64_t)8)) + ((((((((int64_t)c) * (int64_t)64) + (((int64_t)i_25) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + ((int64_t)begin)) * o_token) * (int64_t)8)) + ((((int64_t)head) * o_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(((half_t*)O16) + ((i_25 * 1024) + (((int)threadIdx.x) * 8)));
      }
    }
  }
  tl::cp_async_wait<0>();
  __syncthreads();
  if (((has_final != 0) && (0 <= read_slot)) && (0 <= write_slot)) {
    #pragma unroll
    for (int i_26 = 0; i_26 < 32; ++i_26) {
      float condval_12;
      if ((((int*)spoilt)[((((i_26 >> 2) * 8) + ((((int)threadIdx.x) & 3) * 2)) + (i_26 & 1))] < 2147483647)) {
        int _reinterpret_tmp_4 = 2143289344;
        condval_12 = (*(float *)(&(_reinterpret_tmp_4)));
      } else {
        int v__22 = (exponent + 127) << 23;
        condval_12 = ((*(float *)(&(v__22))) * S[i_26]);
      }
      final_state[((((((int64_t)write_slot) * final_slot) + (((int64_t)head) * final_head)) + (((((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16) + (((((int64_t)i_26) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * final_key)) + (((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_26) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_26) & (int64_t)1)) * final_value))] = condval_12;
    }
  }
}

cudaError_t kda_state_k64_f16(const KdaState& arguments, cudaStream_t stream) {
  static Prepared prepared{0};
  return launch(kda_state_k64_f16_kernel, prepared, dim3(static_cast<unsigned>(arguments.N * arguments.HV * (arguments.V / 64))), dim3(128, 1, 1),
                93184, stream,
                static_cast<float*>(arguments.final_state),
                static_cast<const float*>(arguments.initial_state),
                static_cast<half_t*>(arguments.o),
                static_cast<const half_t*>(arguments.operators),
                static_cast<const int*>(arguments.read_slots),
                static_cast<const half_t*>(arguments.triangles),
                static_cast<const half_t*>(arguments.v),
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
