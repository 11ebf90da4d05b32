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

namespace fla::tilelang::generated {

static __global__ void __launch_bounds__(128, 1) kda_state_k256_f16_varlen_kernel(const int* __restrict__ cu_seqlens, const float* __restrict__ decays, float* final_state, const float* initial_state, half_t* __restrict__ o, const half_t* __restrict__ operators, const int* __restrict__ read_slots, const half_t* __restrict__ triangles, const half_t* __restrict__ v, const int* __restrict__ write_slots, int HV, int N, int V, int64_t cu_seqlens_stride, int cu_seqlens_wide, int64_t final_head, int64_t final_key, int64_t final_slot, int64_t final_value, int has_final, int has_initial, int has_read_slots, int has_write_slots, int64_t initial_head, int64_t initial_key, int64_t initial_slot, int64_t initial_value, int64_t o_batch, int64_t o_head, int64_t o_token, int pool, int64_t read_slots_stride, int read_slots_wide, float scale, int tokens, int64_t v_batch, int64_t v_head, int64_t v_token, int64_t write_slots_stride, int write_slots_wide) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* Kt = ((void*)((char*)buf_dyn_shmem + 0));
  void* Qt = ((void*)((char*)buf_dyn_shmem + 32768));
  void* Kr = ((void*)((char*)buf_dyn_shmem + 65536));
  void* B = ((void*)((char*)buf_dyn_shmem + 98304));
  void* gamma = ((void*)((char*)buf_dyn_shmem + 106496));
  void* S16 = ((void*)((char*)buf_dyn_shmem + 107520));
  void* O16 = ((void*)((char*)buf_dyn_shmem + 140288));
  void* Y16 = ((void*)((char*)buf_dyn_shmem + 148480));
  int column = 0;
  int n = 0;
  int head = 0;
  int begin = 0;
  int end = 0;
  int batch = 0;
  int place = 0;
  int read_slot = 0;
  int write_slot = 0;
  float S[128];
  half_t values[32];
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
  #pragma unroll
  for (int i = 0; i < 32; ++i) {
    float broadcast_var = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(S + (i * 4)) = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
  }
  if ((has_initial != 0) && (0 <= read_slot)) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 128; ++i_1) {
      S[i_1] = (0x1p-4f/*6.250000e-02*/ * initial_state[((((((int64_t)read_slot) * initial_slot) + (((int64_t)head) * initial_head)) + ((((((((int64_t)i_1) >> (int64_t)5) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + (((((int64_t)i_1) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * initial_key)) + (((((((int64_t)column) * (int64_t)64) + (((((int64_t)i_1) & (int64_t)31) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_1) & (int64_t)1)) * initial_value))]);
    }
  }
  if (0 < chunks) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 16; ++i_2) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_2 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_2 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)49152) + (((int64_t)head) * (int64_t)49152)) + (((int64_t)i_2) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_3 = 0; i_3 < 16; ++i_3) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_3 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_3 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)49152) + (((int64_t)head) * (int64_t)49152)) + (((int64_t)i_3) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_4 = 0; i_4 < 16; ++i_4) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_4 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_4 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((((int64_t)place) * ((int64_t)HV)) * (int64_t)49152) + (((int64_t)head) * (int64_t)49152)) + (((int64_t)i_4) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)32768)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_5 = 0; i_5 < 4; ++i_5) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((i_5 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(triangles[(((((((int64_t)place) * ((int64_t)HV)) * (int64_t)4096) + (((int64_t)head) * (int64_t)4096)) + (((int64_t)i_5) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    tl::cp_async_gs<8>((&(((float*)gamma)[(((int)threadIdx.x) * 2)])), (&(decays[((((((int64_t)place) * ((int64_t)HV)) * (int64_t)256) + (((int64_t)head) * (int64_t)256)) + (((int64_t)((int)threadIdx.x)) * (int64_t)2))])));
    tl::cp_async_commit();
    #pragma unroll
    for (int i_6 = 0; i_6 < 16; ++i_6) {
      *(uint1*)(values + (i_6 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_6) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min((((((((int)threadIdx.x) >> 5) * 16) + ((i_6 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
    }
  }
  for (int c = 0; c < chunks; ++c) {
    int after = (((min((c + 1), (chunks - 1)) + place) * HV) + head);
    tl::cp_async_wait<0>();
    __syncthreads();
    __syncthreads();
    #pragma unroll
    for (int i_7 = 0; i_7 < 16; ++i_7) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)S16)[(((((((i_7 >> 2) * 4096) + ((((int)threadIdx.x) >> 5) * 1024)) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + ((i_7 & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_7 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)S[(i_7 * 8)]), ((half_t)S[((i_7 * 8) + 1)])), __pack_half2(((half_t)S[((i_7 * 8) + 2)]), ((half_t)S[((i_7 * 8) + 3)])), __pack_half2(((half_t)S[((i_7 * 8) + 4)]), ((half_t)S[((i_7 * 8) + 5)])), __pack_half2(((half_t)S[((i_7 * 8) + 6)]), ((half_t)S[((i_7 * 8) + 7)])));
    }
    __syncthreads();
    #pragma unroll
    for (int i_8 = 0; i_8 < 64; ++i_8) {
      float2 __1;
        float2 v_ = *(float2*)(S + (i_8 * 2));
        float2 v__1 = make_float2(((float*)gamma)[(((((i_8 >> 4) * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_8 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))], ((float*)gamma)[(((((i_8 >> 4) * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_8 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2))]);
        __1.x = (v_.x*v__1.x);
        __1.y = (v_.y*v__1.y);
      *(float2*)(S + (i_8 * 2)) = __1;
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
    for (int i_9 = 0; i_9 < 16; ++i_9) {
      tl::cp_async_gs<16>((&(((half_t*)Kt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_9 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_9 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[(((((int64_t)after) * (int64_t)49152) + (((int64_t)i_9) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_10 = 0; i_10 < 16; ++i_10) {
      tl::cp_async_gs<16>((&(((half_t*)Qt)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_10 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_10 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((int64_t)after) * (int64_t)49152) + (((int64_t)i_10) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)16384)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_11 = 0; i_11 < 16; ++i_11) {
      float broadcast_var_1 = 0x1p-4f/*6.250000e-02*/;
      float broadcast_var_2 = 0x0p+0f/*0.000000e+00*/;
      float2 condval_12;
      if (((((((c * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_11 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin) < end)) {
        float2 __2;
          float2 __3;
            float2 v__2 = make_float2(broadcast_var_1, broadcast_var_1);
            float2 __4;
            uint1 v__3 = *(uint1*)(values + (i_11 * 2));
            ((float2*)(&__4))[0] = __half22float2(((half2*)(&v__3))[0]);
            __3.x = (v__2.x*__4.x);
            __3.y = (v__2.y*__4.y);
          float2 v__4 = *(float2*)(Y + (i_11 * 2));
          __2.x = (__3.x-v__4.x);
          __2.y = (__3.y-v__4.y);
        condval_12 = __2;
      } else {
        condval_12 = make_float2(broadcast_var_2, broadcast_var_2);
      }
      *(float2*)(Y + (i_11 * 2)) = condval_12;
    }
    __syncthreads();
    #pragma unroll
    for (int i_12 = 0; i_12 < 4; ++i_12) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)Y16)[((((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_12 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_12 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Y[(i_12 * 8)]), ((half_t)Y[((i_12 * 8) + 1)])), __pack_half2(((half_t)Y[((i_12 * 8) + 2)]), ((half_t)Y[((i_12 * 8) + 3)])), __pack_half2(((half_t)Y[((i_12 * 8) + 4)]), ((half_t)Y[((i_12 * 8) + 5)])), __pack_half2(((half_t)Y[((i_12 * 8) + 6)]), ((half_t)Y[((i_12 * 8) + 7)])));
    }
    #pragma unroll
    for (int i_13 = 0; i_13 < 16; ++i_13) {
      *(uint1*)(values + (i_13 * 2)) = *(uint1*)(v + ((((((((int64_t)column) * (int64_t)64) + ((((int64_t)i_13) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)batch) * v_batch) * (int64_t)8)) + ((((int64_t)min(((((((c * 64) + ((((int)threadIdx.x) >> 5) * 16)) + ((i_13 & 1) * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + begin) + 64), (end - 1))) * v_token) * (int64_t)8)) + ((((int64_t)head) * v_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)));
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
      for (int i_14 = 0; i_14 < 4; ++i_14) {
        #pragma unroll
        for (int ki_2 = 0; ki_2 < 4; ++ki_2) {
          tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, true, true, 1, 1>(uint64_t(desc_a_2 + (((i_14 * 8192) + (ki_2 * 2048)) >> 4)), uint64_t(desc_b_2 + ((ki_2 * 2048) >> 4)), ((uint32_t*)(S + (i_14 * 32))), 1);
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
    __syncthreads();
    #pragma unroll
    for (int i_15 = 0; i_15 < 16; ++i_15) {
      tl::cp_async_gs<16>((&(((half_t*)Kr)[((((((((((int)threadIdx.x) & 31) >> 3) * 4096) + (i_15 * 256)) + ((((int)threadIdx.x) >> 5) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_15 & 1)) & 1) * 32)) + ((((((int)threadIdx.x) >> 6) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 63) >> 5) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(operators[((((((int64_t)after) * (int64_t)49152) + (((int64_t)i_15) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8)) + (int64_t)32768)])));
    }
    tl::cp_async_commit();
    #pragma unroll
    for (int i_16 = 0; i_16 < 4; ++i_16) {
      tl::cp_async_gs<16>((&(((half_t*)B)[(((((i_16 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(triangles[(((((int64_t)after) * (int64_t)4096) + (((int64_t)i_16) * (int64_t)1024)) + (((int64_t)((int)threadIdx.x)) * (int64_t)8))])));
    }
    tl::cp_async_commit();
    tl::cp_async_gs<8>((&(((float*)gamma)[(((int)threadIdx.x) * 2)])), (&(decays[((((int64_t)after) * (int64_t)256) + (((int64_t)((int)threadIdx.x)) * (int64_t)2))])));
    tl::cp_async_commit();
    #pragma unroll
    for (int i_17 = 0; i_17 < 8; ++i_17) {
      float broadcast_var_3 = 0x0p+0f/*0.000000e+00*/;
      float4 condval_13;
      if ((0 <= read_slot)) {
        float4 __5;
          float4 v__5 = make_float4((0x1p+4f/*1.600000e+01*/ * scale), (0x1p+4f/*1.600000e+01*/ * scale), (0x1p+4f/*1.600000e+01*/ * scale), (0x1p+4f/*1.600000e+01*/ * scale));
          float4 v__6 = *(float4*)(O + (i_17 * 4));
          __5.x = (v__5.x*v__6.x);
          __5.y = (v__5.y*v__6.y);
          __5.z = (v__5.z*v__6.z);
          __5.w = (v__5.w*v__6.w);
        condval_13 = __5;
      } else {
        condval_13 = make_float4(broadcast_var_3, broadcast_var_3, broadcast_var_3, broadcast_var_3);
      }
      *(float4*)(O + (i_17 * 4)) = condval_13;
    }
    __syncthreads();
    #pragma unroll
    for (int i_18 = 0; i_18 < 4; ++i_18) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)O16)[(((((((int)threadIdx.x) >> 5) * 1024) + ((((int)threadIdx.x) & 15) * 64)) + (i_18 * 16)) + (((((int)threadIdx.x) & 31) >> 4) * 8))])), __pack_half2(((half_t)O[(i_18 * 8)]), ((half_t)O[((i_18 * 8) + 1)])), __pack_half2(((half_t)O[((i_18 * 8) + 2)]), ((half_t)O[((i_18 * 8) + 3)])), __pack_half2(((half_t)O[((i_18 * 8) + 4)]), ((half_t)O[((i_18 * 8) + 5)])), __pack_half2(((half_t)O[((i_18 * 8) + 6)]), ((half_t)O[((i_18 * 8) + 7)])));
    }
    __syncthreads();
    #pragma unroll
    for (int i_19 = 0; i_19 < 4; ++i_19) {
      if (((((c * 64) + (i_19 * 16)) + (((int)threadIdx.x) >> 3)) + begin) < end) {
        *(uint4*)(o + (((((((int64_t)column) * (int64_t)64) + ((((int64_t)batch) * o_batch) * (int64_t)8)) + ((((((((int64_t)c) * (int64_t)64) + (((int64_t)i_19) * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + ((int64_t)begin)) * o_token) * (int64_t)8)) + ((((int64_t)head) * o_head) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(((half_t*)O16) + ((i_19 * 1024) + (((int)threadIdx.x) * 8)));
      }
    }
  }
  tl::cp_async_wait<0>();
  __syncthreads();
  if (((has_final != 0) && (0 <= read_slot)) && (0 <= write_slot)) {
    #pragma unroll
    for (int i_20 = 0; i_20 < 128; ++i_20) {
      final_state[((((((int64_t)write_slot) * final_slot) + (((int64_t)head) * final_head)) + ((((((((int64_t)i_20) >> (int64_t)5) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)5) * (int64_t)16)) + (((((int64_t)i_20) & (int64_t)3) >> (int64_t)1) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2)) * final_key)) + (((((((int64_t)column) * (int64_t)64) + (((((int64_t)i_20) & (int64_t)31) >> (int64_t)2) * (int64_t)8)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)2)) + (((int64_t)i_20) & (int64_t)1)) * final_value))] = (0x1p+4f/*1.600000e+01*/ * S[i_20]);
    }
  }
}

cudaError_t kda_state_k256_f16_varlen(const KdaState& arguments, cudaStream_t stream) {
  static Prepared prepared{0};
  return launch(kda_state_k256_f16_varlen_kernel, prepared, dim3(static_cast<unsigned>(arguments.N * arguments.HV * (arguments.V / 64))), dim3(128, 1, 1),
                156672, stream,
                static_cast<const int*>(arguments.cu_seqlens),
                static_cast<const float*>(arguments.decays),
                static_cast<float*>(arguments.final_state),
                static_cast<const float*>(arguments.initial_state),
                static_cast<half_t*>(arguments.o),
                static_cast<const half_t*>(arguments.operators),
                static_cast<const int*>(arguments.read_slots),
                static_cast<const half_t*>(arguments.triangles),
                static_cast<const half_t*>(arguments.v),
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
