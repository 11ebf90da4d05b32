#pragma once

#include "backends/cuda_backward/wgmma.cuh"
#include "backends/cuda_backward/workspace.cuh"
#include "fla/ops/recurrence/cuda/backward/gates.cuh"

/// What both kernels of gradients have in common: products of a slice, sums over channels or values, and the
/// way from tiles to the caller's tensors.
namespace fla::cuda_backward {

/// The same for all threads of a warp, and the compiler knows it: operands are in uniform registers.
__device__ inline int warpgroup() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0); }

/// d = A B of a warpgroup, over k from 0 on: A of 16 rows a warp in registers.
template <int tiles, bool rows_are_k>
__device__ void make_products(Slice<kTokenTiles>& d, const Packed<tiles>& left, Operand<rows_are_k> right) {
  constexpr int kSteps = tiles / 2;
  uint4 a[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) a[s] = left.left(s);
  keep(a), keep(d);
  begin_products();
  add_product<false>(d, a[0], right);
#pragma unroll
  for (int s = 1; s < kSteps; ++s) add_product(d, a[s], right.from(16 * s));
  end_products();
  wait_for_products<0>();
  keep(d), keep(a);
}

/// Sums over the rows of a slice, one for each of its tokens.
template <int count>
__device__ void put_token_sums(float (&sums)[count], float* to) {
  constexpr int kHeld = count / 8;
  const int m = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  reduce_scatter<8, 4>(sums);
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int i = m * kHeld + j;
    to[i / 2 * 8 + 2 * p + i % 2] = sums[j];
  }
}
__device__ inline float token_sum(const float (&by_warp)[kHead / 16][kTokens], int t) {
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kHead / 16; ++warp) sum += by_warp[warp][t];
  return sum;
}

/// What gradients of beta are multiplied by.
__device__ inline float beta_slope(const RecurrenceCall& call, const HeldBeta& beta) {
  return call.beta_sigmoid ? (call.neg_eigval ? 2.0f : 1.0f) * sigmoid_slope(beta.raw(call)) : 1;
}

/// Stores a tile transposed, so that its rows, channels or values, become columns: a warp has 8 tokens and 32
/// rows at a time, a lane eight neighbouring rows of one token t. body_of(t) is called for each of its tokens
/// and stores them: it is given the first of the rows, and their words.
template <int threads, class BodyOf>
__device__ void store_columns(const KeyTile& tile, int rows, int count, BodyOf&& body_of) {
  constexpr int kTokensAtOnce = threads < 256 ? threads / 4 : kTokens,
                kStep = threads < 256 ? 32 : threads / 8;
  const int lane = threadIdx.x % 32;
  // The row that this lane gives to ldmatrix. Lanes p, modulo 4, receive rows 8 p .. 8 p + 7, of matrix m two
  // from 2 (m ^ p) on: rows of a matrix lie in eight different places modulo 8, and so in different banks.
  const int row = lane % 8 / 2 * 8 + (lane / 8 ^ lane % 8 / 2) * 2 + lane % 2;
#pragma unroll
  for (int first_token = 0; first_token < kTokens; first_token += kTokensAtOnce) {
    const int token = first_token + static_cast<int>(threadIdx.x) / 32 * 8 % kTokensAtOnce,
              t = token + lane / 4;
    const auto body = body_of(t);
#pragma unroll
    for (int i = 0; i < kHead; i += kStep) {
      const int first = i + (threads < 256 ? 0 : static_cast<int>(threadIdx.x) / 256 * 32);
      if (first >= rows) break;
      uint4 words = load_matrices<true>(tile.address(first, token, row, 0));
      if (lane & 1) words = {words.y, words.x, words.w, words.z};
      if (lane & 2) words = {words.z, words.w, words.x, words.y};
      if (t < count) body(first + lane % 4 * 8, words);
    }
  }
}
__device__ inline auto places_of(const Rows& rows, int head, const TokenRange& range) {
  std::uint16_t* const to = static_cast<std::uint16_t*>(rows.data) + range.batch * rows.batch +
                            range.first * rows.token + head * rows.head;
  return [to, step = rows.token](int t) { return to + t * step; };
}

/// dV = diag(beta) dY
template <int threads>
__device__ void store_values(const Rows& rows, int head, int V, const TokenRange& range, const KeyTile& dY,
                             const float (&beta)[kTokens], float up) {
  if (!rows.data) return;
  const auto places = places_of(rows, head, range);
  store_columns<threads>(dY, V, range.count, [&](int t) {
    return [to = places(t), factor = up * beta[t], narrow = rows.dtype == DType::f16](int v,
                                                                                      const uint4& words) {
      const auto converted = [&](std::uint32_t word) {
        const float2 x = unpack_f16(word);
        return narrow ? pack_f16(factor * x.x, factor * x.y) : pack_bf16(factor * x.x, factor * x.y);
      };
      *reinterpret_cast<uint4*>(to + v) = {converted(words.x), converted(words.y), converted(words.z),
                                           converted(words.w)};
    };
  });
}

/// dq or dk of a head that shares its keys with no other, channels x tokens, in the form in which they are
/// stored.
template <int threads>
__device__ void store_keys(const Rows& rows, int head, int K, const TokenRange& range, const KeyTile& tile) {
  if (!rows.data) return;
  const auto places = places_of(rows, head, range);
  store_columns<threads>(tile, K, range.count, [&](int t) {
    return [to = places(t)](int c, const uint4& words) { *reinterpret_cast<uint4*>(to + c) = words; };
  });
}

// ---- Heads that share keys leave their parts of dq and dk in the workspace, in f16 and scaled.

/// The numbers of a part, as they lie in registers.
template <int threads, int tiles>
struct PartWords {
  uint4 of[2][tiles / 2];  ///< of dq, of dk

  PartWords() = default;
  __device__ PartWords(const Slice<tiles>& dq, const Slice<tiles>& dk) {
    const Packed<tiles> x[2] = {packed(dq), packed(dk)};
#pragma unroll
    for (int i = 0; i < tiles; ++i)
      of[i / (tiles / 2)][i % (tiles / 2)] = x[i / (tiles / 2)].left(i % (tiles / 2));
  }
  __device__ void store(KeyParts& to) const {
#pragma unroll
    for (int i = 0; i < tiles; ++i) to[i * threads + threadIdx.x] = of[i / (tiles / 2)][i % (tiles / 2)];
  }
  __device__ void load(const KeyParts& from) {
    static_assert(threads * tiles * sizeof(uint4) == sizeof(KeyParts));
#pragma unroll
    for (int i = 0; i < tiles; ++i)  // other blocks may just have written this: not from the first cache
      of[i / (tiles / 2)][i % (tiles / 2)] = __ldcg(from + i * threads + threadIdx.x);
  }
};

/// What a group of heads has of dq and dk before they go through norms: slices, and the sums q dq and k dk of
/// a token, which the first 2 kTokens threads have, one each. Parts are added from the last head on: the bits
/// are the same whichever block adds, and whichever heads are its own.
template <int threads, int tiles>
struct KeySums {
  Slice<tiles> dq = {}, dk = {};
  float products = 0;

  /// A head's; `up` is its Scales'.
  __device__ void add(const Slice<tiles>& of_dq, const Slice<tiles>& of_dk, float of_products, float2 up) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dq[n][e] += of_dq[n][e] * up.y * up.x, dk[n][e] += of_dk[n][e] * up.y * up.x;
    }
    products += of_products * up.y * up.x;
  }
  /// The same of what it leaves to others.
  __device__ void add(const PartWords<threads, tiles>& words, float of_products, float2 up) {
    const auto add_all = [&](Slice<tiles>& dx, const uint4(&part)[tiles / 2]) {
#pragma unroll
      for (int i = 0; i < tiles / 2; ++i) {
        const std::uint32_t word[4] = {part[i].x, part[i].y, part[i].z, part[i].w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float2 x = unpack_f16(word[j]);
          float* const to = dx[2 * i + j / 2] + j % 2 * 2;
          to[0] += x.x * up.y * up.x, to[1] += x.y * up.y * up.x;
        }
      }
    };
    add_all(dq, words.of[0]), add_all(dk, words.of[1]);
    products += of_products * up.y * up.x;
  }
  /// Heads `last` .. `first` of a chunk: what they left.
  __device__ void add_heads(const RecurrenceCall& call, const BackwardMemory& workspace,
                            const ChunkOfBlock<kTokens>& chunk, int first, int last) {
#pragma unroll 1
    for (int head = last; head >= first; --head) {
      const ChunkMemory& from = workspace.chunks[chunk.place * call.HV + head];
      PartWords<threads, tiles> words;
      words.load(from.parts);
      const float of_products = threadIdx.x < 2 * kTokens ? __ldcg(from.products + threadIdx.x) : 0;
      add(words, of_products, Scales(call, workspace, chunk.n, head).up());
    }
  }
};

/// Whether of the blocks with one head each of a chunk and key head this is the last one that is done. All
/// threads of a block call this once they have left their part; `last` is in shared memory.
__device__ inline bool last_of_group(const RecurrenceCall& call, const BackwardMemory& workspace,
                                     std::int64_t place, int key_head, bool& last) {
  __syncthreads();
  if (threadIdx.x == 0) {  // one fence for all: those before the barrier, and those after the next
    __threadfence();
    last = atomicAdd(workspace.done + place * (call.HV / call.group) + key_head, 1u) + 1 ==
           static_cast<unsigned>(call.group);
    __threadfence();
  }
  __syncthreads();
  return last;
}
}  // namespace fla::cuda_backward
